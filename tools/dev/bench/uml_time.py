"""What the processor time of a User-mode Linux machine was for.

Such a machine counts its programs' time in ticks of 10 ms as it likes, so the host is asked: perf
samples the machine's kernel, which is one process of the host, and the processes that are its
programs' memory. A sample of the kernel belongs to the innermost of the functions here on its
stack, so that what Soft-RoCE and the emulated card do for a program is not the program's. Nor is
what leads there: a card's library posts work and asks for completions by writing to the card, that
of Soft-RoCE by system calls to the device's file.
"""

import signal
import subprocess
from collections import Counter
from pathlib import Path

FREQUENCY_HZ = 1997
OWN, USER, RDMA, CARD, SOFTIRQ, ENTRY = ("system calls", "user", "Soft-RoCE", "emulated card",
                                         "soft interrupts", "entering the emulated kernel")
DEVICE = ("rxe_", "ib_uverbs_")  # the functions of Soft-RoCE, and of the device's file
CLASSES = {"handle_syscall": OWN, "io_wq_worker": OWN, "do_work": RDMA,
           "vector_net_start_xmit": CARD, "vector_poll": CARD,
           "handle_softirqs": SOFTIRQ, "__do_softirq": SOFTIRQ,
           "userspace": ENTRY, "wait_stub_done": ENTRY}
OTHER = "other"
MEMORY = "/dev/shm/"  # where the machine's memory lies, and so what its programs run


def kind_of(frames: list[tuple[str, str]]) -> str:
    """The class of a sample, of (function, file) from the innermost on."""
    if frames and frames[0][1].startswith(MEMORY):
        return USER
    for function, _ in frames:
        if function.startswith(DEVICE):
            return RDMA
        if function in CLASSES:
            return CLASSES[function]
    return OTHER


def read_samples(text: str) -> Counter:
    """Samples by class, of what `perf script -F ip,sym,dso` prints."""
    found: Counter = Counter()
    for sample in text.split("\n\n"):
        frames = []
        for line in sample.splitlines():
            words = line.split(None, 2)
            if len(words) == 3 and "(" in words[2]:
                file = words[2].split("(", 1)[1]
                frames.append((words[1].split("+")[0], file))
        if frames:
            found[kind_of(frames)] += 1
    return found


class Profile:
    """Samples a machine's processes while it is entered; seconds() by class afterwards."""

    def __init__(self, pids: list[int], folder: Path):
        self.program = "perf"
        self.pids, self.data = pids, folder / "perf.data"

    def __enter__(self) -> "Profile":
        self.running = subprocess.Popen(
            [self.program, "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY_HZ), "-g",
             "-o", str(self.data), "-p", ",".join(map(str, self.pids))],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *error) -> None:
        self.running.send_signal(signal.SIGINT)
        self.running.wait(60)

    def seconds(self) -> dict[str, float]:
        text = subprocess.run([self.program, "script", "-i", str(self.data), "-F", "ip,sym,dso"],
                              capture_output=True, text=True, check=True).stdout
        return {kind: count / FREQUENCY_HZ for kind, count in read_samples(text).items()}
