"""Headers compile alone: finds those that lack an include of their own.

    python3 tools/dev/tidy/headers.py [ROOT]

A header that a source file includes first is proved by every build: tidy sees to it that X.cc
begins with X.h. The others are compiled here, each by itself; not those of tests and tools.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import checks  # noqa: E402
import tidy  # noqa: E402

COMPILER = ['clang++-19', '-fsyntax-only', '-std=c++2b', '-I.', '-DSPDLOG_COMPILED_LIB',
            '-DSPDLOG_FMT_EXTERNAL', '-DFMT_SHARED', '-x', 'c++', '-include']
# Needs Ganesha's headers, which are there only after its build.
EXCEPTION = checks.GANESHA_FOLDER + '/'


def unproved(texts):
    """Headers that no source file includes first, of a dict from path to text."""
    first = {checks.first_include(text) for path, text in texts.items() if path.endswith('.cc')}
    return [path for path in sorted(texts)
            if path.endswith('.h') and path not in first and not path.startswith(EXCEPTION)]


def finding(root, header):
    run = subprocess.run([*COMPILER, header, os.devnull], cwd=root, capture_output=True, text=True)
    if run.returncode == 0:
        return None
    errors = [line for line in run.stderr.splitlines() if 'error:' in line]
    return f'{header}:1: does not compile alone: {(errors or [run.stderr])[0]}'


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[3]
    texts = {name: (root / name).read_text() for name in tidy.tracked(root)
             if name.endswith(tidy.CPP) and name.startswith(checks.PRODUCTION)}
    headers = unproved(texts)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [what for what in pool.map(lambda name: finding(root, name), headers) if what]
    print(*found, f'headers: {len(headers)} compiled alone, {len(found)} findings', sep='\n')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
