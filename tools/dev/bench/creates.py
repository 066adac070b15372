#!/usr/bin/python3
"""Creates a second with six data servers against one: a create costs no call per data server.

    ./dev bench creates [--rounds 7] [--seconds 4] [--depth 8]

Two Wefts, one with one data server and one with six, alternate within each round. A create is an
OPEN that makes a new file and its CLOSE; eight are outstanding at any time.
"""

import argparse
import sys

import loopback
import report


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench creates",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--results", default=str(loopback.ROOT / "results"))
    given = parser.parse_args()
    rates: dict = {1: [], 6: []}
    idle: dict = {"1 data server": [], "6 data servers": []}
    with loopback.Run() as one_run, loopback.Run() as six_run:
        arms = {1: loopback.WeftArm(one_run, 1), 6: loopback.WeftArm(six_run, 6)}
        for number in range(given.rounds):
            for (count, arm), watched in zip(arms.items(), idle.values()):
                result = loopback.load(arm, "creates", "--file", f"r{number}", "--depth",
                                       str(given.depth), "--seconds", str(given.seconds))
                rates[count].append(result["ops_per_s"])
                watched.append(result["idle_percent"])
                print(f"{count} data servers: {result['ops_per_s']:.0f} creates/s", flush=True)
    rows = [report.row("creates, 6 data servers / 1", rates[6], rates[1], "creates/s", 0.95)]
    return 0 if report.publish("creates", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
