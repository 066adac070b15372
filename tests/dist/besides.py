"""Commands of weft(1) that no block of a page types.

Pages name them in sentences and tables. Those that say how things are, or change nothing that
lasts, test_documentation.py types all the same, on the pages' system; those that need a system in
which something is wrong, or that a test has typed already, are left to that test.
test_named_commands.py looks that each command of weft(1) is in a block, or here, and not in both.
"""

from dataclasses import dataclass

AFTER = "operating"  # the page after which they are typed: m1, d1 to d3, c1 that has it mounted


@dataclass(frozen=True)
class Typed:
    machine: str
    text: str
    says: tuple[str, ...]           # regular expressions: each is somewhere in what is printed
    statuses: tuple[int, ...] = (0,)


# A doctor ends with 1 where something is bad: of the machine that tests, it may be.
DOCTOR = (0, 1)
TYPED = [
    Typed("m1", "weft doctor", (r"^ok +configuration +/etc/weft/ganesha\.conf$",
                                r"^ok +metadata server +answers$",
                                r"^ok +port +from d1-a to other data servers$"), DOCTOR),
    Typed("d1", "weft doctor", (r"^ok +configuration +/etc/weft/ds-a\.toml$",
                                r"^ok +port +metadata server 192\.0\.2\.1:20480 accepts$"), DOCTOR),
    Typed("c1", "weft doctor 192.0.2.11:2051",
          (r"^ok +port +server 192\.0\.2\.11:2051 accepts$",), DOCTOR),
    Typed("m1", "cd /var/tmp && weft support-bundle && tar -tzf weft-support-*.tar.gz",
          (r"^wrote /var/tmp/weft-support-\S+: .* without keys and tokens$",
           r"^\S+/etc-ganesha\.conf$", r"^\S+/log\.txt$", r"^\S+/status\.json$")),
    Typed("d1", "weft support-bundle /var/tmp/d1.tar.gz && tar -xzOf /var/tmp/d1.tar.gz",
          (r"level=info event=", r"^\[cluster\]$")),
    Typed("c1", "weft bench --threads 1 --size 1MiB --files 10 /mnt/scratch",
          (r"\A1 threads below /mnt/scratch\n\n", r"^stream read +1 ", r"^unlink +10 ",
           r"^small read +10 ")),
    Typed("m1", "weft key status",
          (r"^metadata server +[0-9a-f]{16}$",
           r"^key [0-9a-f]{16}: used by 4, accepted by 4 of 4 servers$")),
    Typed("m1", "weft audit start --check", (r"and\s+nothing is changed",)),
    Typed("m1", "weft audit status", (r"^audit that changed nothing ended .* ago$",
                                      r"^3 data servers gone through, \d+ objects$")),
    Typed("m1", "weft audit stop", (r"^no audit runs$",)),
    Typed("m1", "weft scrub status", (r"^no scrub of copies since|^compared ",)),
    Typed("m1", "weft scrub stop", (r"^no scrub runs$|^the scrub ends$",)),
    Typed("m1", "weft policy show /weft/home/alice/scratch",
          (r"^copies +1 +/weft/home/alice/scratch$",)),
    Typed("m1", "weft ds segments", (r"^data server 1 \(d1-a\): ",)),
    Typed("m1", "weft ds add", (r"^A data server adds itself: weft token",)),
    Typed("m1", "weft plan performance --servers 8", (r"^Two tiers (do not )?pay",)),
    Typed("m1", "weft plan performance --paper", (r"\b6 x 2\b",)),
]

# Which test of tests/system types the others.
ELSEWHERE = {
    "clients": "test_day_two.py::test_clients_are_told_with_what_they_hold",
    "config show": "test_day_two.py::test_options_are_told_as_they_run",
    "ds accept": "test_store_states.py::test_rolled_back_with_the_only_copy",
    "ds give-up": "test_parity.py::test_a_target_is_given_up",
    "events": "test_day_two.py::test_events_are_told_followed_and_survive_a_kill",
    "fsck": "test_crashes.py::test_three_kills",
    "key drop": "test_key_change.py::test_nobody_notices_a_change_of_the_key",
    "key use": "test_key_change.py::test_nobody_notices_a_change_of_the_key",
    "policy clear": "test_policy.py::test_by_command_line",
    "policy replace": "test_policy.py::test_by_command_line",
    "scrub resolve": "test_maintenance.py::test_scrub",
}
