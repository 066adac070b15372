"""Runs fuzz targets side by side, each for some seconds, and notes how they ended.

    fuzz.py --seconds 10 --jobs 2 --results build/test --corpora build/corpus TARGET...

A line "passed|failed TAB fuzz: NAME TAB reason" for each goes to RESULTS/fuzz.tsv, its output to
RESULTS/NAME.log, and what makes it fail to RESULTS/NAME-crash-*. What a target finds interesting is
kept in CORPORA/NAME for the next time; a folder tests/fuzz/corpus/NAME is read as well.
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import time


def run_one(target, options):
    name = target.name
    corpus = options.corpora / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [folder for folder in [options.seeds / name] if folder.is_dir()]
    log = options.results / f'{name}.log'
    with log.open('wb') as output:
        status = subprocess.run(
            [target, f'-max_total_time={options.seconds}', '-timeout=10', '-rss_limit_mb=2048',
             f'-artifact_prefix={options.results}/{name}-', corpus, *seeds],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT).returncode
    return name, status, log


def note(name, status, log):
    if status == 0:
        return f'passed\tfuzz: {name}\t\n'
    said = [line for line in log.read_text(errors='replace').splitlines()
            if line.startswith('SUMMARY:') or 'ERROR:' in line]
    reason = said[-1].replace('\t', ' ') if said else f'ended with {status}'
    return f'failed\tfuzz: {name}\t{reason}; {log}\n'


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument('--seconds', type=int, default=10)
    arguments.add_argument('--jobs', type=int, default=2)
    arguments.add_argument('--results', type=pathlib.Path, required=True)
    arguments.add_argument('--corpora', type=pathlib.Path, required=True)
    arguments.add_argument('--seeds', type=pathlib.Path, default=pathlib.Path('tests/fuzz/corpus'))
    arguments.add_argument('targets', type=pathlib.Path, nargs='+')
    options = arguments.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(run_one, target.resolve(), options) for target in options.targets]
        for run in concurrent.futures.as_completed(runs):
            name, status, log = run.result()
            failed += status != 0
            print(f'{time.strftime("%H:%M:%S")} {name}: {"ok" if status == 0 else "FAILED"}',
                  flush=True)
            with (options.results / 'fuzz.tsv').open('a') as notes:
                notes.write(note(name, status, log))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
