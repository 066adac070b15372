"""Tests of what models.py draws: pytest tools/dev/bench."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import models  # noqa: E402

CURVES = {"columns": ["hits", *models.SYSTEMS],
          "rows": [[0.0, 2562.0, 1708.0, 2135.0, 2277.0], [0.5, 5124.0, 6832.0, None, 2400.0]]}
CACHES = {"title": "Figure 8", "columns": ["system", "I/O cache", "target's", "hits", "requests/s"],
          "rows": [["PVFS 18", 256.0, 0.0, 0.75, 10248.0], ["6 x 2", 656.0, 156.0, 0.75, 7200.0],
                   ["3 x 5", 656.0, 156.0, 0.6, 3600.0], ["6 x 2", 724.0, 156.0, 0.796, 7200.0]]}
LASTS = {"title": "8 pairs", "columns": ["duplicated", "MTTDL, hours", "times as long"],
         "rows": [[1.0, 201754.0, 368.0], [0.95, 19725.0, 36.0], [0.0, 1068.0, 2.0]]}


def test_figure_8_and_reliability_are_drawn():
    curves = [{"title": title, **CURVES} for title in ("small", "large", "window", "soon", "late")]
    figure = models.draw([*curves, CACHES], LASTS)
    axes = {axis.get_title(): axis for axis in figure.axes}
    assert list(axes) == ["small", "large", "soon", "late", "Figure 8", "8 pairs"]
    heights = {bar.get_label(): [one.get_height() for one in bar]
               for bar in axes["Figure 8"].containers}
    assert heights == {"PVFS 18": [10248.0], "6 x 2": [7200.0, 7200.0], "3 x 5": [3600.0],
                       "2 x 8": []}
    assert [one.get_height() for one in axes["8 pairs"].containers[0]] == [368.0, 36.0, 2.0]
