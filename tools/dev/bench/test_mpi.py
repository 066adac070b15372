"""Tests of mpi.py: the processes of a pattern write each byte of the file once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import mpi  # noqa: E402


@pytest.mark.parametrize("name", mpi.patterns(2))
def test_each_byte_is_written_once(name):
    pattern = mpi.patterns(2)[name]
    assert len(pattern.firsts) == mpi.PROCESSES and pattern.each % pattern.piece == 0
    places = sorted(first + number * (pattern.piece + pattern.skip)
                    for first in pattern.firsts for number in range(pattern.each // pattern.piece))
    assert places == list(range(0, pattern.whole, pattern.piece))


def test_a_job_for_each_process():
    lines = mpi.patterns(2)["tile"].job("read").splitlines()
    assert "rw=read:32768" in lines and "end_fsync=0" in lines
    assert [line for line in lines if line.startswith("[p")] == ["[p0]", "[p1]", "[p2]", "[p3]"]
