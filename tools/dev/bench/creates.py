#!/usr/bin/python3
"""Creates a second with six data servers against one, and with two copies against one.

    ./dev bench creates [--rounds 7] [--seconds 4] [--depth 8]

Three Wefts, one with one data server, one with six, and one with six and two copies of each file,
alternate within each round. A create is an OPEN that makes a new file and its CLOSE, and costs no
call to any data server; eight are outstanding at any time.
"""

import sys

import loopback
import report


def main() -> int:
    parser = report.parser("creates", __doc__, rounds=7, seconds=4.0)
    parser.add_argument("--depth", type=int, default=8)
    given = parser.parse_args()
    names = ("1 data server", "6 data servers", "6 data servers, 2 copies")
    rates: dict = {name: [] for name in names}
    idle: dict = {name: [] for name in names}
    with loopback.Run() as one_run, loopback.Run() as six_run, loopback.Run() as pairs_run:
        arms = dict(zip(names, (loopback.WeftArm(one_run, 1), loopback.WeftArm(six_run, 6),
                                loopback.WeftArm(pairs_run, 6, copies=2))))
        for number in range(given.rounds):
            for name, arm in arms.items():
                result = loopback.load(arm, "creates", "--file", f"r{number}", "--depth",
                                       str(given.depth), "--seconds", str(given.seconds))
                rates[name].append(result["ops_per_s"])
                idle[name].append(result["idle_percent"])
                print(f"{name}: {result['ops_per_s']:.0f} creates/s", flush=True)
    one, six, pairs = (rates[name] for name in names)
    rows = [report.row("creates, 6 data servers / 1", six, one, "creates/s", 0.95),
            report.row("creates, 2 copies / 1, 6 data servers", pairs, six, "creates/s", 0.95)]
    return 0 if report.publish("creates", rows, given.results, idle) else 1


if __name__ == "__main__":
    sys.exit(main())
