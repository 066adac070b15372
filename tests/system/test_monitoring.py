"""What servers print for Prometheus is as Prometheus wants it, and has all that the alerting rules
and the dashboard of dist/monitoring ask for."""

import json
import re
import urllib.request

import pytest
from harness import config, paths, promtool
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.in_namespace import InNamespace

MONITORING = paths.REPOSITORY / "dist" / "monitoring"
MDS_PORT = 9632
# With checksums, which parity groups have no need of; test_checksums.py reads them.
OF_CHECKSUMS = {"weft_ds_checksum_bad_blocks_total", "weft_target_checksum_bad_blocks_total"}
METRIC = re.compile(r"\b(?:weft_(?:build|mds|ds|target)|process)_\w+?(?=(?:_bucket)?\b)")
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
           "process_max_fds", "process_start_time_seconds"}


@pytest.fixture(params=["shm", "parity3"])
def system(request, run, network):
    return Cluster(run, network, Options(
        data_servers=2, store=request.param, cache="16 MiB", metrics=True,
        domains=("left", "right"),
        extra={"Metrics_Address": f'"10.77.0.1:{MDS_PORT}"', "Copies": "2"}))


def text(node, port: int) -> str:
    def ask() -> str:
        with urllib.request.urlopen(f"http://{node.address}:{port}/metrics", timeout=5) as page:
            return page.read().decode()
    return InNamespace(node, ask).result(10)


def printed(cluster) -> dict[str, str]:
    """Each server's page."""
    pages = {"mds": text(cluster.mds_node, MDS_PORT)}
    for server in cluster.ds:
        pages[server.name] = text(server.node, config.METRICS_PORT)
    for number, target in enumerate(cluster.targets, 1):
        pages[target.name] = text(target.process.node, config.METRICS_PORT + number)
    return pages


def asked_for() -> dict[str, set[str]]:
    """The names of metrics in the rules and in the dashboard."""
    rules = "\n".join(line for line in (MONITORING / "weft.rules.yml").read_text().splitlines()
                      if not line.strip().startswith("#"))
    panels = json.loads((MONITORING / "weft-dashboard.json").read_text())["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(expressions) > 30
    return {"rules": set(METRIC.findall(rules)), "dashboard": set(METRIC.findall(
        "\n".join(expressions)))}


def test_metrics_are_as_prometheus_wants_them(system, run, network):
    client = start_client(run, network)
    client.mount(system.address, system.path)
    client.run("head -c 4M /dev/urandom >/mnt/nfs/a; sync; cat /mnt/nfs/a >/dev/null")
    pages = printed(system)
    for name, page in pages.items():
        assert 'weft_build_info{program="weft-' in page, name
        used = dict(re.findall(r"^(process_\w+) (\S+)$", page, re.MULTILINE))
        assert set(used) == PROCESS and all(float(one) > 0 for one in used.values()), (name, used)
        assert float(used["process_open_fds"]) < float(used["process_max_fds"]), name
    mds = pages["mds"]
    # How long operations took: those of the client above, by data server and kind.
    for op in ("read", "write", "commit"):
        counts = [int(count) for page in pages.values() for count in re.findall(
            rf'^weft_ds_operation_seconds_count{{op="{op}"}} (\d+)$', page, re.MULTILINE)]
        assert len(counts) == 2 and (op == "read" or sum(counts) > 0), (op, counts)
        # Of targets as well, but for what data servers read and write past them.
        counts = [int(count) for page in pages.values() for count in re.findall(
            rf'^weft_target_operation_seconds_count{{op="{op}"}} (\d+)$', page, re.MULTILINE)]
        assert len(counts) == len(system.targets), (op, counts)
        assert op != "commit" or sum(counts) > 0, counts
    for op in ("open", "layoutget"):
        assert re.search(rf'^weft_mds_operation_seconds_count{{op="{op}"}} [1-9]', mds,
                         re.MULTILINE), op
    assert re.search(r"^weft_mds_reply_wait_seconds_count [1-9]", mds, re.MULTILINE)
    for number, domain in ((1, "left"), (2, "right")):
        assert re.search(rf'^weft_mds_data_server_up{{id="\d+",name="ds{number}",'
                         rf'domain="{domain}"}} 1$', mds, re.MULTILINE), mds
    if promtool.missing():
        pytest.skip(promtool.missing())
    for name, page in pages.items():
        # Those of the library that serves the page are not ours.
        ours = "".join(line + "\n" for line in page.splitlines()
                       if re.match(r"(# (HELP|TYPE) )?(weft|process)_", line))
        status, said = promtool.run("check", "metrics", given=ours)
        assert (status, said) == (0, ""), name


@pytest.mark.parametrize("system", ["parity3"], indirect=True)
def test_rules_and_dashboard_ask_for_what_servers_print(system):
    there = {name for page in printed(system).values()
             for name in re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)}
    for who, wanted in asked_for().items():
        assert len(wanted) > 25 and wanted - OF_CHECKSUMS <= there, (who, wanted - there)
