"""Runs jobs inside a client machine.

The host puts job-N.run into /run/weft/to_guest; the agent starts it and leaves job-N.out (grows
meanwhile) and job-N.status (exists when it ended) in /run/weft/from_guest. A job runs as root, or
as the user in its name, job-N.run-UID. job-N.kill ends a job's whole session. Many jobs may run at
once. 'halt' ends the agent, and the machine with it.

Where the machine shares no folder with the host (QEMU), argument 1 is a character device, and the
two folders are copied over it: one JSON object a line, {"name", "data" (base64)}; a file of
to_guest comes whole, files of from_guest are sent as they grow.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time

HERE = "/run/weft/to_guest"
BACK = "/run/weft/from_guest"
DROP, DROPPED = "/dev/shm/weft-drop", "/dev/shm/weft-dropped"
POLL_S = 0.02


def write_whole(path, data):
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.rename(path + ".new", path)


def start_job(name, kind, jobs):
    script = f"{HERE}/{name}.{kind}"
    uid = int(kind.removeprefix("run-")) if kind != "run" else 0
    with open(script, "rb") as file:
        first = file.readline(200)
    command = first[2:].decode().split() if first.startswith(b"#!") else ["/bin/bash"]
    with open(f"{BACK}/{name}.out", "wb") as output:
        jobs[name] = subprocess.Popen([*command, script], stdin=subprocess.DEVNULL, stdout=output,
                                      stderr=subprocess.STDOUT, start_new_session=True,
                                      cwd="/root", user=uid, group=uid, extra_groups=[])


def kill_job(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def serve():
    seen = set()
    jobs = {}
    while True:
        for entry in sorted(os.listdir(HERE)):
            if entry in seen or entry.endswith(".new"):
                continue
            seen.add(entry)
            name, _, kind = entry.rpartition(".")
            if entry == "halt":
                return
            if kind.startswith("run"):
                start_job(name, kind, jobs)
            elif kind == "kill" and name in jobs:
                kill_job(jobs[name])
        for name, process in list(jobs.items()):
            if process.poll() is not None:
                write_whole(f"{BACK}/{name}.status", str(process.returncode).encode())
                del jobs[name]
        time.sleep(POLL_S)


def receive(port):
    for line in port:
        message = json.loads(line)
        write_whole(f"{HERE}/{message['name']}", base64.b64decode(message["data"]))


def send(port):
    """Copies from_guest to the host. A status goes after the output that was there before it."""
    sent = {}
    while True:
        names = [name for name in os.listdir(BACK) if not name.endswith(".new")]
        for name in sorted(names, key=lambda name: name.endswith(".status")):
            with open(f"{BACK}/{name}", "rb") as file:
                file.seek(sent.get(name, 0))
                data = file.read(262144)
                while data or name not in sent:
                    sent[name] = sent.get(name, 0) + len(data)
                    text = base64.b64encode(data).decode()
                    port.write(json.dumps({"name": name, "data": text}).encode() + b"\n")
                    data = file.read(262144)
        time.sleep(POLL_S)


def drop_caches_for_users():
    """For weft-drop-caches: who writes to the one can read from the other once it is done."""
    for name in (DROP, DROPPED):
        os.mkfifo(name)
        os.chmod(name, 0o666)
    while True:
        with open(DROP) as asked:
            asked.read()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
        with open(DROPPED, "w") as answer:
            answer.write("done\n")


def main():
    if len(sys.argv) > 1:
        descriptor = os.open(sys.argv[1], os.O_RDWR)
        threading.Thread(target=receive, args=(os.fdopen(descriptor, "rb"),), daemon=True).start()
        sender = os.fdopen(os.dup(descriptor), "wb", buffering=0)
        threading.Thread(target=send, args=(sender,), daemon=True).start()
    os.umask(0o022)
    threading.Thread(target=drop_caches_for_users, daemon=True).start()
    write_whole(f"{BACK}/ready", open("/proc/sys/kernel/osrelease", "rb").read())
    serve()


main()
