"""Tests of test.sh: what stages say that run less than all."""

import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
# The stage, and instead of the program what it prints last.
SCRIPT = '''
WEFT_ROOT=$PWD
. tools/dev/common.sh
. tools/dev/test.sh
test_results=$1 WEFT_LOGS=$1 WEFT_SIM_SEEDS=1000 printed=$2
test_build() { :; }
step() { echo "$printed" >"$WEFT_LOGS/simulation.log"; }
test_simulation
/usr/bin/python3 tools/dev/summary.py "$1"
'''


@pytest.mark.parametrize('printed, told', [
    ('1000 of 1000 seeds in 140 s, 0 failed', ['1 passed, 0 failed, 0 skipped']),
    ('412 of 1000 seeds in 151 s, 0 failed', [
        'skipped: some seeds of simulation: only 412 of 1000 seeds in 151 s, which is the time it '
        'has; WEFT_SIM_SECONDS=0 runs all', '1 passed, 0 failed, 1 skipped']),
])
def test_a_simulation_that_ran_out_of_time_says_so(tmp_path, printed, told):
    done = subprocess.run(['bash', '-euc', SCRIPT, 'bash', tmp_path, printed], cwd=HERE.parents[1],
                          text=True, capture_output=True, check=True)
    assert done.stdout.splitlines() == [f'passed: simulation: {printed}', *told]
