"""Tests of package.sh: what ./dev package does besides building."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = '''import pytest

@pytest.mark.skipif(True, reason="piuparts is not installed")
def test_that_needs_a_tool():
    pass

def test_that_needs_none():
    assert {fine}
'''


def shell(text, tmp_path):
    """Runs functions of package.sh in a copy of what they use."""
    for name in ('tools/dev/summary.py',):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    script = (f'cd {ROOT} && WEFT_ROOT={tmp_path}; . tools/dev/common.sh; '
              f'. tools/dev/package.sh; cd {tmp_path} && {text}')
    return subprocess.run(['bash', '-uc', script], text=True, capture_output=True,
                          env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})


def test_what_is_skipped_is_told_with_its_reason(tmp_path):
    (tmp_path / 'test_tools.py').write_text(TESTS.format(fine=True))
    done = shell(f'package_pytest {tmp_path}/test_tools.py', tmp_path)
    assert done.returncode == 0, done
    assert 'piuparts is not installed' in done.stdout
    assert done.stdout.splitlines()[-1] == '1 passed, 0 failed, 1 skipped'


def test_a_test_that_fails_is_no_success(tmp_path):
    (tmp_path / 'test_tools.py').write_text(TESTS.format(fine=False))
    done = shell(f'package_pytest {tmp_path}/test_tools.py', tmp_path)
    assert done.returncode != 0
    assert 'test_that_needs_none' in done.stdout


def test_the_last_release_is_the_newest_before_this_trees_own(tmp_path):
    (tmp_path / 'debian').mkdir()
    (tmp_path / 'debian/changelog').write_text('weft (0.3.0) x; y\n\n  * z\n\nweft (0.2.0) x\n')
    git = 'git -c user.name=a -c user.email=a@b -c init.defaultBranch=main'
    commit = f'{git} commit -q --allow-empty -m'
    done = shell(f"{git} init -q . && {commit} 'version 0.3.0' && ! package_commit last && "
                 f"{commit} 'version 0.2.0' && git rev-parse HEAD && {commit} 'version of a thing' "
                 f"&& {commit} 'version 0.3.0' && {commit} 'more' && "
                 'package_commit last && package_commit HEAD^ && ! package_commit none', tmp_path)
    assert done.returncode == 0, done
    release, last, one = done.stdout.split()
    assert last == release and one not in (release, '')
