"""What an administrator asks day by day: what happened, who is there, what holds."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from harness import paths
from harness.client import start_client
from harness.cluster import Cluster, Options
from harness.counters import weft
from harness.process import Process
from harness.run import wait_until


def command(cluster, *arguments: str) -> list[str]:
    return [str(paths.weft_command()), "--socket", str(cluster.admin_socket), *arguments]


def run_weft(cluster, *arguments: str, columns: int = 80, status: int = 0) -> str:
    """As people see it."""
    done = subprocess.run(command(cluster, *arguments), text=True, capture_output=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= columns
    return done.stdout


def happened(cluster) -> list[tuple[str, str]]:
    return [(event["event"], event.get("server", {}).get("name", ""))
            for event in weft(cluster, "events")["events"]]


def test_events_are_told_followed_and_survive_a_kill(run, network):
    cluster = Cluster(run, network, Options(data_servers=2))
    assert ("server_started", "") in happened(cluster)
    assert ("data_server_connected", "ds2") in happened(cluster)
    follower = Process(run, "follower", command(cluster, "events", "--follow"))
    follower.start()
    cluster.ds[1].process.kill()
    wait_until(lambda: ("data_server_disconnected", "ds2") in happened(cluster), 20, "the loss")
    assert "(ds2): connection lost" in run_weft(cluster, "events")
    wait_until(lambda: "(ds2): connection lost" in follower.log.read_text(), 20,
               "the follower to tell of it")
    saved = cluster.folder / "metadata" / "events"
    wait_until(lambda: ("data_server_gone", "ds2") in happened(cluster), 20, "what follows")
    before = weft(cluster, "events")
    wait_until(lambda: json.loads(saved.read_text())["newest"] >= before["newest"], 20, "the file")
    cluster.mds.kill()
    cluster.restart_mds()
    cluster.ds[1].process.start()
    cluster.wait_up()
    after = weft(cluster, "events")
    # The old ones are as they were, unless they happened again, which is told behind them.
    assert before["events"][-1] in after["events"]
    started, = (event for event in after["events"] if event["event"] == "server_started")
    assert started["number"] > before["newest"] and started["times"] == 2
    wait_until(lambda: follower.log.read_text().count(" started") == 2, 20, "the follower")
    assert follower.alive
    assert run_weft(cluster, "events", "--since", "1h")
    recent = json.loads(run_weft(cluster, "events", "--since", "1ms", "-o", "json"))
    assert len(recent["events"]) < len(after["events"])


def test_every_sentence_is_of_an_event_that_there_is():
    """A line of the log that is renamed takes its sentence with it."""
    source = (paths.REPOSITORY / "ganesha-fsal/server/events.cc").read_text()
    names = set(re.findall(r'Sentence\{"(\w+)",', source))
    assert len(names) > 30
    logged = ""
    for folder in ("ganesha-fsal", "rpc"):
        for file in (paths.REPOSITORY / folder).rglob("*.cc"):
            if file.name != "events.cc":
                logged += Path(file).read_text()
    assert [name for name in sorted(names) if f"event={name} " not in logged and
            f"event={name}\"" not in logged and f'"{name}"' not in logged] == []


@pytest.fixture
def benched(cluster, client):
    if not cluster.counted:
        pytest.skip("needs a Weft")
    client.install(paths.weft_command())
    return client


def test_clients_are_told_with_what_they_hold(cluster, client, folder):
    if not cluster.counted:
        pytest.skip("needs a Weft")
    job = client.start_job(f"exec 3>{folder}/held; echo x >&3; sync {folder}/held; "
                           "weft-signal open; weft-wait done")
    client.wait_event("open")
    report = weft(cluster, "clients")
    # What it was before it mounted anew may be known for a lease yet.
    mine = [one for one in report["clients"]
            if one["address"] == client.node.address and one["opens"] >= 1]
    assert len(mine) == 1 and report["count"] >= 1, report
    assert mine[0]["minor_version"] == 2
    assert mine[0]["owner"].startswith("Linux NFSv4.2 ")
    text = run_weft(cluster, "clients")
    assert client.node.address in text and f"{mine[0]['id']:x}" in text
    client.signal("done")
    job.wait(30)


def test_options_are_told_as_they_run(run, network):
    cluster = Cluster(run, network, Options(data_servers=1, extra={
        "Copies": "2", "Scrub_Every": '"2 d"', "Proxy_Memory": '"128 MiB"'}))
    report = weft(cluster, "config", "show")

    def row(options, name):
        return next(option for option in options if option["name"] == name)
    assert row(report["options"], "Lease_Lifetime") == {
        "name": "Lease_Lifetime", "value": 10, "default": 60, "is_default": False}
    assert row(report["options"], "Resync_Rate")["is_default"]
    assert row(report["options"], "Key_File")["value"] == str(cluster.key_file)
    assert row(report["options"], "Scrub_Every")["value"] == 2 * 86400
    assert row(report["options"], "Proxy_Memory")["value"] == 128 << 20
    export, = report["exports"]
    assert export["path"] == cluster.path
    assert row(export["options"], "Copies")["value"] == 2
    server, = report["data_servers"]
    assert server["name"] == "ds1" and server["why"] == ""
    assert row(server["options"], "cluster.key_file")["value"] in map(str, cluster.key_files)
    assert row(server["options"], "mirror.timeout_seconds")["is_default"]
    assert set(weft(cluster, "config", "show", "ds1")) == {"data_servers", "targets"}
    assert len(report["targets"]) == len(cluster.targets)
    everything = run_weft(cluster, "config", "show", columns=200)
    assert cluster.key_file.read_text().strip() not in everything
    changed = run_weft(cluster, "config", "show", "--changed", columns=200)
    assert "Copies" in changed and "Resync_Rate" not in changed
    assert "server.listen" in changed and "mirror.timeout_seconds" not in changed
    cluster.ds[0].process.kill()
    wait_until(lambda: "not known" in run_weft(cluster, "config", "show", "ds1", columns=200), 30,
               "the data server to be away")


def test_the_metadata_store_has_the_memory_that_options_say(run, network):
    cluster = Cluster(run, network, Options(data_servers=1, extra={
        "Metadata_Cache": '"32 MiB"', "Metadata_Write_Buffer": "2"}))
    shown = {option["name"]: option["value"]
             for option in weft(cluster, "config", "show")["options"]}
    assert shown["Metadata_Cache"] == 32 << 20
    assert shown["Metadata_Write_Buffer"] == 2 << 20
    assert weft(cluster, "status")["memory"]["store_cache_most_bytes"] == 32 << 20
    # RocksDB's own record of its options: of names and attributes, and of inline files half.
    newest = max((cluster.folder / "metadata").glob("OPTIONS-*"))
    sizes = re.findall(r"^  write_buffer_size=(\d+)$", newest.read_text(), re.MULTILINE)
    assert [int(size) for size in sizes] == [2 << 20, 1 << 20]


def test_targets_are_asked_by_their_data_servers(run, network):
    cluster = Cluster(run, network, Options(data_servers=1, store="parity3"))
    own = weft(cluster, "version", "--all")

    def told() -> bool:
        return all(target["version"] for target in weft(cluster, "version", "--all")["targets"])
    wait_until(told, 30, "all targets to say their versions")
    versions = weft(cluster, "version", "--all")
    assert versions["same"] and len(versions["targets"]) == 3
    assert {target["version"] for target in versions["targets"]} == {own["weft"]}
    assert {target["data_server"] for target in versions["targets"]} == {"ds1"}
    targets = weft(cluster, "config", "show", "--changed", "ds1")["targets"]
    assert len(targets) == 3 and not any(target["why"] for target in targets)
    for target in targets:
        changed = {option["name"] for option in target["options"]}
        assert "store.path" in changed and "target.drain_seconds" not in changed
    cluster.targets[0].process.kill()
    wait_until(lambda: not told(), 30, "the target to be away")
    assert "not known: it is not connected" in run_weft(cluster, "version", "--all", status=1)


def test_options_are_read_again_while_clients_work(run, network):
    cluster = Cluster(run, network, Options(data_servers=2, extra={"Copies": "1", "Inline": "0"}))
    client = start_client(run, network)
    client.mount(cluster.address, cluster.path)

    def value(name):
        report = weft(cluster, "config", "show")
        rows = report["options"] + report["exports"][0]["options"]
        return next(row["value"] for row in rows if row["name"] == name)

    def copies(name):
        file = weft(cluster, "layout", "show", f"{cluster.path}/{name}")
        return {len(stripe["copies"]) for stripe in file["stripes"]}
    memory = value("Proxy_Memory")
    assert value("Copies") == 1
    client.run("dd if=/dev/zero of=/mnt/nfs/before bs=1M count=2 conv=fsync")
    cluster.options.extra |= {"Copies": "2", "Resync_Rate": '"64 MiB"', "Proxy_Memory": '"99 MiB"'}
    cluster.reload_exports(cluster.exports)
    wait_until(lambda: value("Copies") == 2 and value("Resync_Rate") == 64 << 20, 30,
               "the file to be read again")
    assert value("Proxy_Memory") == memory
    client.run("dd if=/dev/zero of=/mnt/nfs/after bs=1M count=2 conv=fsync\n"
               "echo x >>/mnt/nfs/before")
    assert copies("after") == {2} and copies("before") == {0}  # none beside the one there is
    names = [name for name, _ in happened(cluster)]
    assert "option_reloaded" in names and "option_needs_restart" in names
    # All of what is wrong is left out.
    cluster.options.extra |= {"Copies": "4", "Resync_Rate": "1"}
    cluster.reload_exports(cluster.exports)
    log = run.folder / "ganesha.log"
    wait_until(lambda: "Copies = 4: must be a number from 1 to 3" in
               log.read_text(errors="replace"), 30, "a word of what is wrong")
    assert value("Copies") == 2 and value("Resync_Rate") == 64 << 20
    client.run("echo y >>/mnt/nfs/after")


def test_a_benchmark_of_an_ordinary_user_leaves_nothing(benched, folder):
    done = benched.run(f"id -u; cd {folder} && weft bench --threads 2 --size 4MiB --files 20 "
                       "-o json", 180)
    user, _, document = done.output.partition("\n")
    assert user != "0"
    report = json.loads(document)
    assert report["nfs"]
    assert {step["name"]: step["operations"] for step in report["steps"]} == {
        "stream write": 8, "stream read": 8, "create": 40, "stat": 40, "unlink": 40,
        "small write": 40, "small read": 40}
    assert benched.run(f"ls -A {folder}").output == ""


def test_a_benchmark_that_is_interrupted_leaves_nothing(benched, folder):
    job = benched.start_job(f"""weft bench {folder} --only names --files 1000000 &
until ls {folder}/weft-bench.*/0/name1; do sleep 0.1; done >/dev/null 2>&1
kill -TERM $!; wait $!; echo "ended with $?"; ls -A {folder}""")
    done = job.wait(120)
    assert done.output.splitlines() == ["weft: interrupted", "ended with 2"]


def test_a_benchmark_where_the_user_may_not_write(benched):
    done = benched.run("weft bench /mnt", check=False)
    assert done.status == 2 and "/mnt" in done.output and len(done.output.splitlines()) == 1


@pytest.mark.parametrize(("words", "expected"), [
    ("stauts", "there is no command 'stauts'; did you mean 'status'?"),
    ("ds lst", "there is no command 'ds lst'; did you mean 'ds list'?"),
    ("evnts", "there is no command 'evnts'; did you mean 'events'?"),
    ("ds frobnicate", "there is no command 'ds frobnicate'; weft ds --help lists them"),
    ("top --interval 2d", "weft top: --interval: 2d is not within 100ms to 1d; "
     "weft top --help says more"),
    ("status --wacht 2", "weft status has no option --wacht; did you mean --watch?"),
    ("ds list --outptu=json", "weft ds list has no option --outptu; did you mean --output?"),
    ("layout show", "weft layout show: FILE is required; weft layout show --help says more"),
    ("ds", "weft ds: it needs one more word; weft ds --help says more"),
    ("--sokcet=/x health", "weft has no option --sokcet; did you mean --socket?"),
])
def test_unknown_words_get_a_suggestion(words, expected):
    done = subprocess.run([str(paths.weft_command()), *words.split()], text=True,
                          capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"weft: {expected}\n")
