"""The manual pages say what there is."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_every_health_code_is_in_the_manual():
    source = (REPOSITORY / "ganesha-fsal/admin/health.cc").read_text()
    table = source.split("kCodes[] = {")[1].split("};")[0]
    codes = re.findall(r'\{"([A-Z_]+)"', table)
    page = (REPOSITORY / "docs/man/weft.1.scd").read_text().split("# HEALTH")[1].split("\n# ")[0]
    assert len(codes) > 20 and re.findall(r"^\*([A-Z_]+)\*$", page, re.MULTILINE) == codes
