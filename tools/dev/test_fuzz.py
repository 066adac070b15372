"""Tests of fuzz.py, with scripts in place of fuzz targets."""

import pathlib
import subprocess
import sys

FUZZ = pathlib.Path(__file__).parent / 'fuzz.py'


def script(path, body):
    path.write_text(f'#!/bin/sh\n{body}\n')
    path.chmod(0o755)
    return path


def run(tmp_path, *targets):
    done = subprocess.run([sys.executable, FUZZ, '--seconds', '1', '--results', tmp_path / 'r',
                           '--corpora', tmp_path / 'c', *targets], capture_output=True, text=True)
    return done.returncode, (tmp_path / 'r' / 'fuzz.tsv').read_text()


def test_good_and_bad(tmp_path):
    good = script(tmp_path / 'a_fuzz', 'exit 0')
    bad = script(tmp_path / 'b_fuzz', 'echo "SUMMARY: AddressSanitizer: heap"; exit 77')
    status, notes = run(tmp_path, good, bad)
    assert status == 1
    assert 'passed\tfuzz: a_fuzz\t\n' in notes
    assert 'failed\tfuzz: b_fuzz\tSUMMARY: AddressSanitizer: heap; ' in notes
    assert (tmp_path / 'c' / 'a_fuzz').is_dir()


def test_all_good(tmp_path):
    assert run(tmp_path, script(tmp_path / 'a_fuzz', 'exit 0'))[0] == 0
