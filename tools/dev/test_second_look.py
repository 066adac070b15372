"""Tests of second_look.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import second_look  # noqa: E402
import test_summary  # noqa: E402


def looked_at(tmp_path, text, codes):
    xml = tmp_path / 'ctest-release.xml'
    xml.write_text(text)
    codes = iter(codes)
    return list(second_look.look(xml, lambda name: name, run=lambda _: next(codes)))


def test_passing_every_time_is_unsteady(tmp_path):
    assert looked_at(tmp_path, test_summary.CTEST, [0, 0, 0]) == ['ctest-release: test_a: bad']


def test_failing_again_is_a_failure(tmp_path):
    assert looked_at(tmp_path, test_summary.CTEST, [0, 1]) == []


def test_a_sanitizer_needs_to_see_it_once(tmp_path):
    text = test_summary.CTEST.replace('CHECK( 1 == 2 )', 'WARNING: ThreadSanitizer: data race')
    assert looked_at(tmp_path, text, []) == []


def test_many_failures_are_no_accident():
    assert second_look.candidates([(f'test_{i}', '') for i in range(5)]) == []
    assert len(second_look.candidates([(f'test_{i}', '') for i in range(4)])) == 4


def test_commands():
    assert second_look.ctest_command('test_a: b (c)', 'tsan')[4] == r'^test_a:\ b\ \(c\)$'
    assert second_look.pytest_command('tests.system.test_copy.test_x[files-a.b]')[-1] == \
        'tests/system/test_copy.py::test_x[files-a.b]'
    assert second_look.pytest_command('tests.system.ganesha.test_patches.test_y')[-1] == \
        'tests/system/ganesha/test_patches.py::test_y'
    assert second_look.pytest_command('tests.system.ganesha.test_patches')[-1] == \
        'tests/system/ganesha/test_patches.py'
