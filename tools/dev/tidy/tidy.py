"""Checks the tree's form; prints findings, ends with 1 if there are any.

    python3 tools/dev/tidy/tidy.py [--no-format] [ROOT]
"""

import argparse
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import checks  # noqa: E402

CPP = ('.h', '.cc')
CODE = CPP + ('.py', '.sh')


def tracked(root):
    """Files git tracks, and new ones it does not ignore."""
    out = subprocess.run(['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                         cwd=root, check=True, capture_output=True).stdout.decode()
    return sorted({name for name in out.split('\0') if name and (root / name).is_file()})


def format_findings(root, files):
    cpp = [name for name in files if name.endswith(CPP)]
    if not cpp:
        return
    run = subprocess.run(['clang-format-19', '--dry-run', *cpp], cwd=root, capture_output=True,
                         text=True)
    wrong = {line.split(':', 2)[0] for line in run.stderr.splitlines()
             if 'clang-format-violations' in line}
    if run.returncode and not wrong:
        yield f'clang-format failed: {run.stderr.strip()}'
    for name in sorted(wrong):
        yield f'{name}:1: not formatted (./dev tidy --fix formats it)'


def findings(root, files):
    yield from checks.same_modules(files)
    for name in files:
        data = (root / name).read_bytes()
        if b'\0' in data or name == 'LICENSE':
            continue
        text = data.decode('utf-8', 'replace')
        yield from checks.forbidden(name, text)
        if name.endswith(CODE) or name == 'dev':
            yield from checks.lengths(name, text)
        if name.endswith('.py'):
            yield from checks.twice(name, text)
        if name.endswith(CPP):
            yield from checks.layering(name, text)
            yield from checks.mutexes(name, text)
            yield from checks.clocks(name, text)
            yield from checks.own_header(name, text, lambda header: header in files)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('--no-format', action='store_true')
    arguments.add_argument('root', nargs='?', default=pathlib.Path(__file__).parents[3],
                           type=pathlib.Path)
    options = arguments.parse_args()
    files = tracked(options.root)
    found = list(findings(options.root, files))
    if not options.no_format:
        found += format_findings(options.root, files)
    for finding in found:
        print(finding)
    sizes = {name: (options.root / name).read_bytes().count(b'\n')
             for name in files if name.endswith(CPP)}
    long = sorted((name for name in sizes if sizes[name] > checks.FILE_LISTED), key=sizes.get)
    median = sorted(sizes.values())[len(sizes) // 2] if sizes else 0
    print(f'tidy: {len(files)} files, {len(sizes)} of them C++ (median {median} lines); '
          f'{len(found)} findings; over {checks.FILE_LISTED} lines: '
          + (', '.join(f'{name} ({sizes[name]})' for name in long) or 'none'))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
