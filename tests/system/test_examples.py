"""The configurations that the documentation shows are good ones."""

import subprocess

import pytest
from harness import paths

DOCS = paths.REPOSITORY / "docs"
KEY = "/etc/weft/cluster.key"


def shown() -> list[tuple[str, str]]:
    """(name, text) of each that is whole."""
    found = []
    for page in ("fsal-weft.8", "weft-ds.toml.5", "weft-target.toml.5"):
        text = (DOCS / "man" / f"{page}.scd").read_text().split("# EXAMPLE")[1]
        kind = "ganesha.conf" if page == "fsal-weft.8" else page[:-2]
        found.append((kind, text.split("```\n")[1]))
    example = paths.REPOSITORY / "dist" / "examples" / "ganesha.conf"
    return [*found, (example.name, example.read_text())]


def test_there_are_some():
    assert [name for name, _ in shown()] == ["ganesha.conf", "weft-ds.toml", "weft-target.toml",
                                          "ganesha.conf"]
    assert "cat > /etc/weft/" not in (DOCS / "installing.md").read_text()  # weft init writes them


@pytest.mark.parametrize(("name", "text"), shown(), ids=[name for name, _ in shown()])
def test_examples_are_good(tmp_path, name, text):
    key = tmp_path / "cluster.key"
    key.write_text("0" * 64 + "\n")
    key.chmod(0o600)
    assert KEY in text
    file = tmp_path / name
    file.write_text(text.replace(KEY, str(key)))
    done = subprocess.run([str(paths.weft_command()), "check-config", str(file)], text=True,
                          capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, f"{file}: good\n")
