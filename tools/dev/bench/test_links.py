"""Tests of links.py: pytest tools/dev/bench."""

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent))
import links  # noqa: E402


def test_a_policy_takes_the_place_of_the_one_before(monkeypatch):
    """With 'set' the copies=1 of one arm would hold for all that come after it."""
    said = []
    monkeypatch.setattr(links.counters, "weft", lambda _, *words: said.append(words))
    links.policy(SimpleNamespace(path="/export"), "", "copies=1", "stripes=1")
    links.policy(SimpleNamespace(path="/export"), "a", "stripes=all")
    assert said == [("policy", "replace", "/export", "copies=1", "stripes=1"),
                    ("policy", "replace", "/export/a", "stripes=all")]
