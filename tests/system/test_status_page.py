"""The status page of the metadata server, in a browser."""

import os
import re
from pathlib import Path

import pytest
from harness import browser
from harness.browser import Browser
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.run import wait_until

PORT = 9101
PICTURE = os.environ.get("WEFT_PICTURE", "")
DOMAIN = "rack2" if PICTURE else "<b>rack2</b>"
# Those that say none are in one together.
DOMAINS = ("rack1", DOMAIN) if PICTURE else ("rack1", DOMAIN, "", "")
RAW_SPACE = """[...document.querySelectorAll("#figures div")]
  .find((one) => one.innerText.includes("of raw space")).innerText"""
WRITE = """
weft-signal writing
while ! [ -e /tmp/enough ]; do
  dd if=/dev/zero of=/mnt/nfs/a bs=1M count=32 conv=fsync status=none
done
"""


def test_the_page_shows_servers_throughput_and_what_is_wrong(run, network):
    if browser.missing():
        pytest.skip(browser.missing())
    cluster = Cluster(run, network, Options(
        data_servers=4, domains=DOMAINS,
        extra={"Status_Address": f'"10.77.0.1:{PORT}"', "Copies": "2"}))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)
    job = client.start_job(WRITE)
    client.wait_event("writing")
    with Browser(run, network.program(1)) as shown:
        shown.open(f"http://{cluster.address}:{PORT}/")

        def text(of: str) -> str:
            return shown.value(f"document.querySelector('{of}')?.innerText ?? ''")

        wait_until(lambda: "as of" in text("#fresh"), 30, "the page to have an answer", 0.5)
        assert "metadata server" in text("header") and "4 of 4" in text("#figures")
        assert shown.value("document.getElementById('problems').hidden")
        assert "None under way" in text("#repairs")
        # What a server is called is no HTML.
        assert DOMAIN in text("#servers") and "ds4" in text("#servers")
        headings = shown.value("document.querySelectorAll('#servers b, #servers h3').length")
        assert headings == len(set(DOMAINS))
        wait_until(lambda: "iB/s" in text("#servers"), 60, "throughput", 0.5)
        wait_until(lambda: "tcp" in text("#servers"), 60, "how partners are reached", 0.5)
        wait_until(lambda: shown.value("rates.length") > 8, 60, "a line of throughput", 0.5)
        assert client.node.address in text("#clients")
        assert "ds4: connected" in text("#events")
        shown.picture(Path(PICTURE or run.folder / "status-page.png"))
        client.run("touch /tmp/enough")
        job.wait(120)

        cluster.ds[3].process.kill()
        wait_until(lambda: re.search(r"Data server ds4 \(id \d\) is suspect", text("#problems")),
                   60, "the page to say that a server is suspect", 0.5)
        assert "3 of 4" in text("#figures")
        all_there = shown.value(RAW_SPACE)
        wait_until(lambda: shown.value(RAW_SPACE) != all_there, 60,
                   "its space not to be counted when it is down", 0.5)
        wait_until(lambda: "ds4: connection lost" in text("#events"), 60, "the event", 0.5)
        assert shown.complaints == []
        cluster.mds.kill()
        wait_until(lambda: "No answer" in text("#fresh"), 60, "the page to say so", 0.5)
        cluster.restart_mds()
        wait_until(lambda: "as of" in text("#fresh"), 60, "answers again", 0.5)

