"""Tests of summary.py."""

import io
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import summary  # noqa: E402

CTEST = '''<testsuite name="x" tests="3" failures="1" skipped="1">
<testcase name="test_a: fine" classname="test_a: fine" time="0.1" status="run"/>
<testcase name="test_a: bad" classname="test_a: bad" time="0.1" status="fail">
<failure message="Failed"/><system-out>a.cc:3: FAILED
CHECK( 1 == 2 )</system-out></testcase>
<testcase name="test_a: not here" classname="test_a: not here" status="notrun">
<skipped message="SKIP_RETURN_CODE=4"/><system-out>a.cc:9: SKIPPED:
explicitly with message:
  no io_uring on this machine
</system-out></testcase></testsuite>'''

PYTEST = '''<testsuites><testsuite name="pytest">
<testcase classname="tests.system.test_copy" name="test_in_out"/>
<testcase classname="tests.system.test_copy" name="test_rdma">
<skipped type="pytest.skip" message="no RDMA kernel">x.py:1: no RDMA kernel</skipped></testcase>
<testcase classname="tests.system.test_copy" name="test_x"><error message="boom">trace</error>
</testcase></testsuite></testsuites>'''


def run(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / name.replace('_', '.')).write_text(text)
    out = io.StringIO()
    status = summary.summarise(tmp_path, out)
    return status, out.getvalue().splitlines()


def test_sums_all_kinds(tmp_path):
    status, lines = run(tmp_path, ctest_xml=CTEST, pytest_xml=PYTEST,
                        dev_tsv='passed\ttidy\t\nskipped\tasan\tno time\n')
    assert status == 1
    assert lines[-1] == '3 passed, 2 failed, 3 skipped'
    assert 'skipped: ctest: test_a: not here: no io_uring on this machine' in lines
    assert 'skipped: pytest: tests.system.test_copy.test_rdma: no RDMA kernel' in lines
    assert 'skipped: asan: no time' in lines
    assert '    CHECK( 1 == 2 )' in lines


def test_nothing_run_is_no_success(tmp_path):
    assert run(tmp_path) == (1, ['0 passed, 0 failed, 0 skipped'])


def test_half_a_file_is_a_failure(tmp_path):
    status, lines = run(tmp_path, ctest_xml=CTEST[:200])
    assert status == 1 and lines[-1].split(',')[1] == ' 1 failed'


def test_success(tmp_path):
    assert run(tmp_path, dev_tsv='passed\ttidy\t\n')[0] == 0


def test_unsteady_ones_are_told_of_and_do_not_fail(tmp_path):
    (tmp_path / 'unsteady').write_text('ctest: test_a: bad\n')
    status, lines = run(tmp_path, ctest_xml=CTEST)
    assert status == 0
    assert lines[-1] == '2 passed, 0 failed, 1 skipped'
    assert lines[1] == 'unsteady: ctest: test_a: bad'
    assert '    CHECK( 1 == 2 )' in lines


def test_what_failed_comes_last(tmp_path):
    lines = run(tmp_path, ctest_xml=CTEST, pytest_xml=PYTEST)[1]
    first = next(at for at, line in enumerate(lines) if line.startswith('failed: '))
    assert not [line for line in lines[first:] if line.startswith(('skipped: ', 'passed: '))]


def test_a_module_that_is_skipped_whole_is_one_line(tmp_path):
    cases = ''.join(f'<testcase classname="tests.dist.test_x" name="test_y[{name}]">'
                    f'<skipped message="{reason}"/></testcase>'
                    for name, reason in [('a.b', 'none'), ('c', 'none'), ('d', 'other')])
    lines = run(tmp_path, pytest_xml=f'<testsuite>{cases}</testsuite>')[1]
    assert lines == ['skipped: pytest: tests.dist.test_x: 2 tests: none',
                     'skipped: pytest: tests.dist.test_x.test_y[d]: other',
                     '0 passed, 0 failed, 3 skipped']
