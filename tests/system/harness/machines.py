"""The kinds of client machine: User-mode Linux 6.1 and 6.12, and QEMU with Debian's 6.1, also with
RDMA."""

import base64
import json
import os
import socket
import subprocess
import threading
from pathlib import Path

from . import images
from .client import Client
from .run import wait_until


def _hardware_address(address: str, link: int = 0) -> str:
    return f"52:54:{link:02x}:" + ":".join(f"{int(part):02x}" for part in address.split(".")[1:])


class UserModeLinux(Client):
    """Runs as a process of the host. The root is a folder, the share another, by hostfs."""

    kind = "uml61"
    device = "vec0"
    modules = "yes"

    def _terminal(self) -> str:
        return "/dev/tty0"

    def _command(self, image: Path, root: Path) -> list[str]:
        console = "con0=fd:0,fd:1" if self.terminal else "con0=null,fd:1"
        return ["env", f"LD_PRELOAD={image}/preload.so", f"{image}/linux",
                f"mem={self.memory_mib}M", "rootfstype=hostfs", f"rootflags={root}", "ro",
                "init=/weft-init", f"weft.share={self.share}",
                "con=null", console, "ssl=null", "loglevel=4", f"uml_dir={self.folder}", "umid=uml",
                *(f"vec{number}:transport=tap,ifname={tap},depth=128,gro=1,"
                  f"mac={_hardware_address(self.node.address, number)}"
                  for number, tap in enumerate([self.node.tap, *self.node.more_taps]))]

class WithRdma(Client):
    """One whose kernel has RDMA: add_device() gives it one by software (Soft-RoCE), of its first
    link or another. It reads the host's files, so that programs of the host's run in it
    (enter_host())."""

    mount_host = ""  # a command that mounts the host's root folder on $host, read-only

    def add_device(self, name: str = "rxe0", link: str = "") -> None:
        self.run(f"rdma link add {name} type rxe netdev {link or self.device} && rdma link",
                 root=True)

    def device_has_moved(self, name: str = "rxe0") -> tuple[int, int]:
        """Packets that came and went by a device."""
        folder = f"/sys/class/infiniband/{name}/ports/1/hw_counters"
        shown = self.run(f"cat {folder}/rcvd_pkts {folder}/sent_pkts").output
        return tuple(int(count) for count in shown.split())

    def remove_device(self) -> None:
        self.run("rdma link delete rxe0", root=True)

    def enter_host(self, command: str) -> str:
        """A script that runs a command with the host's root folder for its own, read-only, and the
        machine's /run in it."""
        return f"""set -e
host=/run/host
if ! mountpoint -q $host; then
  mkdir -p $host
  {self.mount_host}
  for folder in proc sys dev run; do mount --bind /$folder $host/$folder; done
fi
ulimit -l unlimited
exec chroot $host {command}
"""


class UserModeLinux612(UserModeLinux, WithRdma):
    kind = "uml612"
    modules = ""
    mount_host = "mount -t hostfs -o ro,/ host $host"


class Qemu(Client):
    """A whole machine, emulated: slow, and for checks of correctness with a distribution kernel.

    It shares no folder: a thread copies to_guest and from_guest over a virtio-serial port.
    """

    kind = "qemu61"
    device = "eth0"
    pinned = False  # its two processors are two threads

    def _port(self) -> str:
        return "/dev/vport0p1"

    def _terminal(self) -> str:
        return "/dev/ttyS0"

    def _command(self, image: Path, root: Path) -> list[str]:
        initramfs = self._initramfs(image)
        serial = ["-serial", f"file:{self.console}"]
        if self.terminal:
            serial = ["-chardev", "stdio,id=tty,signal=off", "-serial", "chardev:tty"]
        return ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=256",
                "-cpu", "Nehalem", "-smp", "2", "-m", str(self.memory_mib), "-nodefaults",
                "-no-user-config", "-display", "none", "-no-reboot",
                "-kernel", f"{image}/vmlinuz", "-initrd", str(initramfs), "-append",
                "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=reliable "
                # Tests of the kernel's own that fail or lock up where processors are busy.
                "net.ifnames=0 cryptomgr.notests no_timer_check",
                *serial, "-device", "virtio-serial-pci",
                "-chardev", f"socket,id=share,path={self._socket()},server=on,wait=off",
                "-device", "virtserialport,chardev=share,name=share",
                "-drive", f"file={image}/root.ext4,if=none,id=root,format=raw,readonly=on",
                "-device", "virtio-blk-pci,drive=root",
                "-netdev", f"tap,id=net,ifname={self.node.tap},script=no,downscript=no,vhost=off",
                "-device", "virtio-net-pci,netdev=net,romfile=,"
                f"mac={_hardware_address(self.node.address)}", *self._more()]

    def _more(self) -> list[str]:
        return []

    def _socket(self) -> Path:
        return self.folder / "port"

    def _initramfs(self, image: Path) -> Path:
        """The image's initramfs and behind it a second archive with this client's boot files."""
        stage = self.folder / "initramfs"
        stage.mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", str(self.share / "boot"), str(stage / "weft-boot")], check=True)
        extra = subprocess.run(["sh", "-c", "find . | cpio -o -H newc --quiet | gzip -1"],
                               cwd=stage, stdout=subprocess.PIPE, check=True).stdout
        whole = self.folder / "initramfs.gz"
        whole.write_bytes((image / "initramfs.gz").read_bytes() + extra)
        return whole

    def _started(self) -> None:
        wait_until(self._socket().exists, 10, "QEMU's port")
        port = socket.socket(socket.AF_UNIX)
        port.connect(str(self._socket()))
        threading.Thread(target=self._receive, args=(port,), daemon=True).start()
        self._to_port = port

    def _receive(self, port: socket.socket) -> None:
        try:
            for line in port.makefile("rb"):
                message = json.loads(line)
                self._store(message["name"], base64.b64decode(message["data"]))
        except (OSError, ValueError):
            pass  # the machine is gone; waits notice by themselves

    def _store(self, name: str, data: bytes) -> None:
        if name.endswith((".status", "ready")):
            whole = self.folder / f"arriving-{name}"
            whole.write_bytes(data)
            os.rename(whole, self.from_guest / name)
            return
        with open(self.from_guest / name, "ab") as file:
            file.write(data)

    def send(self, name: str, text: str) -> None:
        super().send(name, text)
        data = base64.b64encode(text.encode()).decode()
        self._to_port.sendall(json.dumps({"name": name, "data": data}).encode() + b"\n")


class Rdma(Qemu, WithRdma):
    kind = "rdma"
    mount_host = ("mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose "
                  "host $host")

    def _more(self) -> list[str]:
        return ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,"
                "multidevs=remap"]


MACHINES = {kind.kind: kind for kind in (UserModeLinux, UserModeLinux612, Qemu, Rdma)}


def need_kind(kind: str) -> None:
    """For tests: builds the kind's image, but skips for those that take long to build or load."""
    if kind in ("uml612", "rdma") and not images.available(kind):
        import pytest  # only tests come here, and ./dev does without it
        pytest.skip(f"the client machine is not built: tools/dev/clients.sh build {kind}")
    images.ensure(images.KINDS[kind])
