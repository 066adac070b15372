"""Looks again at tests that failed: each runs REPEATS times more, with nothing beside it.

    python3 tools/dev/second_look.py XML ctest PRESET
    python3 tools/dev/second_look.py XML pytest

XML holds the results of a stage. A test that passes every time now is unsteady: summary.py tells of
it, with what it said when it failed, and does not count it as failed, as machines that build and
test are slow and shared. It is a defect all the same, of the test or of what it tests.

Nothing is looked at again when more than MOST tests failed, and no test that a sanitizer reported:
what one has seen once is there.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import summary  # noqa: E402

MOST, REPEATS = 4, 3
SANITIZERS = re.compile(r'(Address|Leak|Thread|Memory|UndefinedBehavior)Sanitizer|runtime error:')


def candidates(failed):
    """Of (name, detail) those to run again: all or, when there are too many, none."""
    if len(failed) > MOST:
        return []
    return [name for name, detail in failed if not SANITIZERS.search(detail)]


def ctest_command(name, preset):
    return ['ctest', '--preset', preset, '-R', f'^{re.escape(name)}$', '--no-tests=error',
            '--output-on-failure']


def pytest_command(name):
    """From "tests.system.test_copy.test_in_out[files]"; of a file that could not be collected,
    "tests.system.test_copy", the whole file."""
    module, test = re.fullmatch(r'(.+?\.test_\w+)(?:\.(test_.+))?', name).groups()
    file = module.replace('.', '/') + '.py'
    return ['/usr/bin/python3', '-m', 'pytest', '-p', 'no:cacheprovider', '-n', '0', '-rfE',
            f'{file}::{test}' if test else file]


def look(xml, command, run=lambda command: subprocess.run(command).returncode):
    """Yields the names of those that failed once and pass."""
    prefix = f'{xml.stem}: '
    failed = [(name.removeprefix(prefix), detail)
              for outcome, name, detail in summary.results_of(xml) if outcome == 'failed']
    for name in candidates(failed):
        print(f'once more, {REPEATS} times: {name}', flush=True)
        if all(run(command(name)) == 0 for _ in range(REPEATS)):
            yield prefix + name


def main():
    xml, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
    command = pytest_command if kind == 'pytest' else \
        lambda name: ctest_command(name, sys.argv[3])
    with (xml.parent / 'unsteady').open('a') as out:
        for name in look(xml, command):
            out.write(name + '\n')


if __name__ == '__main__':
    main()
