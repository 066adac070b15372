"""Adds up test results: every JUnit file and dev.tsv in a folder.

Prints passed tests that say something, skipped ones with the reason (a line for all those of one
module and one reason), then failed ones with the end of what they said: whoever keeps only the end
of the output has them. The last line is "N passed, N failed, N skipped". Ends with 0 if nothing
failed and something passed. Tests that the file `unsteady` names, a line each (second_look.py),
count as passed and are told of as failed ones are.
"""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ET


def _text(element):
    return (element.get('message') or '') + '\n' + (element.text or '')


def _ctest_reason(case):
    """Catch2's SKIP("reason") is in the output that ctest keeps."""
    lines = [line.strip() for line in (case.findtext('system-out') or '').splitlines()]
    for at, line in enumerate(lines):
        if line.startswith('explicitly with message'):
            return ' '.join(filter(None, lines[at + 1:at + 2]))
    return ''


def read_junit(path):
    """Yields (outcome, name, detail) for each test case."""
    for case in ET.parse(path).getroot().iter('testcase'):
        name = '.'.join(filter(None, [case.get('classname'), case.get('name')]))
        if case.get('classname') == case.get('name'):
            name = case.get('name')
        name = f'{path.stem}: {name}'
        broken = [node for tag in ('failure', 'error') for node in case.findall(tag)]
        skipped = case.find('skipped')
        if broken or case.get('status') == 'fail':
            yield 'failed', name, '\n'.join(map(_text, broken)) + (
                case.findtext('system-out') or '')
        elif skipped is not None or case.get('status') in ('notrun', 'disabled'):
            reason = _ctest_reason(case)
            if not reason and skipped is not None:
                reason = (skipped.get('message') or skipped.text or '').strip()
            yield 'skipped', name, reason or 'no reason given'
        else:
            yield 'passed', name, ''


def read_notes(path):
    for line in path.read_text().splitlines():
        outcome, name, detail = (line.split('\t') + ['', ''])[:3]
        yield outcome, name, detail


def results_of(path):
    try:
        yield from read_junit(path)
    except ET.ParseError as error:
        yield 'failed', path.name, f'unreadable results: {error}'


def results(folder):
    for path in sorted(folder.glob('*.xml')):
        yield from results_of(path)
    for path in sorted(folder.glob('*.tsv')):
        yield from read_notes(path)


def module_of(name):
    """What a test belongs to: pytest's module, Catch2's program."""
    head, _, rest = name.partition(': ')
    if ': ' in rest:
        return f'{head}: {rest.partition(": ")[0]}'
    return f'{head}: {rest.partition("[")[0].rpartition(".")[0]}' if '.' in rest else name


def skip_lines(skipped):
    """One line for each module and reason; names a test that is alone in it."""
    groups = collections.OrderedDict()
    for name, reason in skipped:
        groups.setdefault((module_of(name), reason), []).append(name)
    for (module, reason), names in groups.items():
        what = names[0] if len(names) == 1 else f'{module}: {len(names)} tests'
        yield f'skipped: {what}: {reason}'


def summarise(folder, out=sys.stdout):
    by = {'passed': [], 'failed': [], 'unsteady': [], 'skipped': []}
    passes_now = folder / 'unsteady'
    unsteady = passes_now.read_text().splitlines() if passes_now.exists() else []
    for outcome, name, detail in results(folder):
        by['unsteady' if outcome == 'failed' and name in unsteady else outcome].append(
            (name, detail))
    for name, detail in by['passed']:
        if detail:
            print(f'passed: {name}: {detail}', file=out)
    for line in skip_lines(by['skipped']):
        print(line, file=out)
    for kind in ('unsteady', 'failed'):
        for name, detail in by[kind]:
            print(f'{kind}: {name}', file=out)
            for line in [line for line in detail.splitlines() if line.strip()][-25:]:
                print(f'    {line}', file=out)
    print(f"{len(by['passed']) + len(by['unsteady'])} passed, {len(by['failed'])} failed, "
          f"{len(by['skipped'])} skipped", file=out)
    return 1 if by['failed'] or not by['passed'] else 0


if __name__ == '__main__':
    sys.exit(summarise(pathlib.Path(sys.argv[1])))
