#!/usr/bin/python3
"""What is left of writing when a data server's disk has other work; with and without By_Load.

    ./dev bench stress [--rounds 3] [--seconds 3] [--rate 200mbit] [--loads 1,2,3,4]

Two Wefts as in `./dev bench scheduling`, with four writers, and stores that go around the page
cache. The disk of one first copy gets from one to four programs that append to it a MiB at a time,
each of them synced, as the nodes of CEFT-PVFS did; then four, and a program that takes the data
server's memory. Told is what of its rate without stress each Weft keeps, and how many times as
much choice by load keeps.
"""

import sys
from contextlib import ExitStack, contextmanager

import links
import report
import stressed
from harness.run import Run

LEAST = 3.0  # times what is left without choice by load, at the greatest load
BY_LOAD, PLAIN = "by load", "not by load"


class Arm(stressed.Arm):
    """A case is how many programs append, and whether one takes the memory; (0, False) is calm."""

    WRITERS = 4  # with as much under way as the programs that append have at the greatest load
    STORE = 'mode = "direct"\n'  # writes go to the disk, and not to memory first

    @contextmanager
    def stress(self, case):
        appenders, memory = case
        with ExitStack() as stack:
            if memory:
                stack.enter_context(stressed.without_memory(self.stressed[0]))
            stack.enter_context(stressed.appending(self.stressed[0], appenders))
            # Waits until the loads are reported.
            stack.enter_context(links.Streams(self.network, [], "write"))
            yield

    def _files_alone(self) -> dict:
        return {}


def name_of(case) -> str:
    return f"disk load {case[0]}" + (" and no memory" if case[1] else "")


def main() -> int:
    parser = report.parser("stress", __doc__, rounds=3, seconds=3.0)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--loads", default="1,2,3,4", type=lambda text:
                        [int(word) for word in text.split(",")])
    given = parser.parse_args()
    cases = [*[(load, False) for load in given.loads], (max(given.loads), True)]
    calm: dict = {BY_LOAD: [], PLAIN: []}
    found: dict = {case: {BY_LOAD: [], PLAIN: []} for case in cases}
    idle: dict = {BY_LOAD: [], PLAIN: []}
    with Run() as first_run, Run() as second_run:
        arms = {BY_LOAD: Arm(first_run, BY_LOAD, given), PLAIN: Arm(second_run, PLAIN, given)}
        for number in range(given.rounds):
            for name, arm in arms.items():
                calm[name].append(arm.write((0, False)))
            for case, rates in found.items():
                for name, arm in arms.items():
                    watch = report.CpuIdle()
                    rates[name].append(arm.write(case))
                    idle[name].append(watch.stop())
                left = {name: rates[name][-1] / calm[name][-1] for name in arms}
                print(f"round {number + 1}, {name_of(case)}: by load keeps {left[BY_LOAD]:.2f}, "
                      f"not by load {left[PLAIN]:.2f}", flush=True)
    rows = []
    for case, rates in found.items():
        rows.append(report.row(f"{name_of(case)}: not by load / without stress", rates[PLAIN],
                               calm[PLAIN], "MiB/s"))
        rows.append(report.row(f"{name_of(case)}: by load / without stress", rates[BY_LOAD],
                               calm[BY_LOAD], "MiB/s"))
        rows.append(report.row(f"{name_of(case)}: by load / not", rates[BY_LOAD], rates[PLAIN],
                               "MiB/s", LEAST if case == cases[-2] else None))
    return 0 if report.publish("stress", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
