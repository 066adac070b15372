"""A browser: Debian's Chromium without a screen, on a machine of the test's network.

It is in a root folder of its own, cached beside the client machines, and spoken to by the protocol
of Chrome's developer tools: JSON documents that end with a zero byte, through two pipes.

    with Browser(run, node) as browser:
        browser.open("http://10.77.0.1:9101/")
        assert browser.value("document.title") == "Weft"
"""

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path

from . import apt, images
from .network import leave_others
from .run import Run

PACKAGES = ["chromium", "fonts-dejavu-core"]
WINDOW = (1100, 1000)
# Its own sandbox needs what containers forbid; it is nobody, and shows only pages of ours.
COMMAND = ["/usr/bin/chromium", "--headless", "--no-sandbox", "--disable-gpu",
           "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
           "--user-data-dir=/tmp/profile", f"--window-size={WINDOW[0]},{WINDOW[1]}",
           "--remote-debugging-pipe", "about:blank"]
MOUNTS = """
mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
root=$1; shift
exec chroot --userspec=nobody:nogroup "$root" /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin "$@"
"""


def _build(folder: Path, scratch: Path) -> dict:
    apt.bootstrap(images.SUITE, PACKAGES, folder / "root", "true")
    return {"suite": images.SUITE}


RECIPE = images.Recipe("chromium", [images.SUITE, *PACKAGES], _build)


def missing() -> str:
    """Why there is none; empty: there is."""
    try:
        images.ensure(RECIPE)
    except apt.AptError as error:
        return f"no Chromium: {error}"
    return ""


class Browser:
    """complaints: what its console and its own log said that was wrong, refusals of
    Content-Security-Policy included."""

    def __init__(self, run: Run, node):
        root = images.ensure(RECIPE) / "root"
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # By way of numbers that are free, since these may be 3 and 4 themselves.
        shell = (f"exec {{i}}<&{theirs_in} {{o}}>&{theirs_out}; exec 3<&$i 4>&$o; set -e\n"
                 f"{leave_others(run.folder)}\n{MOUNTS}")
        self._log = open(run.folder / "chromium.log", "wb")
        self._child = subprocess.Popen(
            [*node.enter_command(), "unshare", "--mount", "--fork", "--pid",
             "--kill-child", "bash", "-c", shell, "bash", str(root), *COMMAND],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        run.on_close(self.stop)
        self._heard = b""
        self._asked = 0
        self._session = ""
        self.complaints: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def stop(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait(20)
            os.close(self._in)
            os.close(self._out)
            self._log.close()

    def open(self, url: str) -> None:
        answer = self._ask("Page.navigate", url=url)
        assert "errorText" not in answer, answer

    def value(self, script: str):
        """Of an expression in the page."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, file: Path) -> None:
        """Of the whole page, as PNG."""
        shown = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shown["data"]))

    def _ask(self, method: str, timeout_s: float = 60, **parameters) -> dict:
        self._asked += 1
        said = {"id": self._asked, "method": method, "params": parameters}
        if self._session:
            said["sessionId"] = self._session
        os.write(self._out, json.dumps(said).encode() + b"\0")
        until = time.monotonic() + timeout_s
        while True:
            heard = self._hear(until)
            if heard.get("id") == self._asked:
                assert "error" not in heard, heard
                return heard["result"]
            self._note(heard)

    def _hear(self, until: float) -> dict:
        while b"\0" not in self._heard:
            if not select.select([self._in], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError(f"Chromium ended with {self._child.wait(20)}")
            self._heard += piece
        one, self._heard = self._heard.split(b"\0", 1)
        return json.loads(one)

    def _note(self, heard: dict) -> None:
        what, said = heard.get("method"), heard.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.complaints.append(said["exceptionDetails"]["text"])
        elif what == "Log.entryAdded" and said["entry"]["level"] in ("warning", "error"):
            self.complaints.append(said["entry"]["text"])
        elif what == "Runtime.consoleAPICalled" and said["type"] in ("warning", "error"):
            self.complaints.append(str(said["args"]))
