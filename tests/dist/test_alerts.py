"""Alerting rules for Prometheus: each alarm of docs/operating.md has one, and each fires when it
should and not otherwise. What servers really print is looked at in tests/system/test_monitoring.py.
"""

import json
import re
from pathlib import Path

import pytest
from harness import promtool

REPOSITORY = Path(__file__).parents[2]
RULES = REPOSITORY / "dist/monitoring/weft.rules.yml"
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.MULTILINE)

SERVER = '{id="1",name="a",domain="r1"}'
INSTANCE = '{instance="a"}'
# A system that is well, as promtool writes series: a value every 30 s for 4 hours.
WELL = {
    'weft_build_info{program="weft-mds"}': "1x480",
    "weft_mds_uptime_seconds": "0+30x480",
    "weft_mds_store_failed": "0x480",
    "weft_mds_store_full": "0x480",
    "weft_mds_store_writes_stopped": "0x480",
    'weft_mds_operations_total{op="read"}': "7+1x480",  # all of them inline
    'weft_mds_inline_operations_total{op="read"}': "7+1x480",
    "weft_mds_layouts_refused_total": "3x480",
    "weft_mds_oldest_recall_seconds": "59x480",
    "weft_mds_fence_failures_total": "2x480",
    "weft_mds_removals_queued": "9000-10x480",
    "weft_mds_warnings": "0x480",
    "weft_mds_refused_servers": "0x480",
    "weft_mds_stray_objects": "0x480",
    "weft_mds_foreign_objects": "0x480",
    "weft_mds_restored_damaged_files": "0x480",
    "weft_mds_scrub_differing": "0x480",
    "weft_mds_scrub_unresolved": "0x480",
    "weft_mds_repair_failures_total": "1x480",
    f"weft_mds_data_server_up{SERVER}": "1x480",
    f"weft_mds_data_server_not_accepted{SERVER}": "0x480",
    f"weft_mds_data_server_store_away{SERVER}": "0x480",
    f"weft_mds_data_server_repair_waits{SERVER}": "0x480",
    f"weft_mds_data_server_objects_stuck{SERVER}": "0x480",
    f"weft_mds_data_server_stale_objects{SERVER}": "9000-3x480",  # being repaired
    f"weft_mds_data_server_free_bytes{SERVER}": "6x480",
    f"weft_mds_data_server_capacity_bytes{SERVER}": "100x480",
    # Never seen, so its size is not known.
    'weft_mds_data_server_free_bytes{id="2",name="b",domain="r2"}': "0x480",
    'weft_mds_data_server_capacity_bytes{id="2",name="b",domain="r2"}': "0x480",
    f"weft_ds_registered{INSTANCE}": "1x480",
    f"weft_ds_descriptor_waits_total{INSTANCE}": "4x480",
    f"weft_ds_mirror_partners_away{INSTANCE}": "0x480",
    f"weft_ds_mirror_pending_bytes{INSTANCE}": "80x480",
    f"weft_ds_mirror_window_bytes{INSTANCE}": "100x480",
    'weft_ds_parity_state{instance="a",state="whole"}': "1x480",
    f"weft_ds_parity_member_awaited{INSTANCE}": "-1x480",
    f"weft_ds_parity_scrub_lost_blocks{INSTANCE}": "0x480",
    f"weft_ds_checksum_bad_blocks_total{INSTANCE}": "5x480",
    f"weft_ds_parity_given_up_blocks{INSTANCE}": "0x480",
    f"weft_ds_parity_objects_gone_total{INSTANCE}": "5x480",
    f"weft_ds_parity_lost_blocks_total{INSTANCE}": "5x480",
    f"weft_ds_parity_corrupt_blocks_total{INSTANCE}": "5x480",
    f"weft_ds_parity_scrub_corrupt_blocks{INSTANCE}": "0x480",
}
# The series that are otherwise, from the 121st value, one hour, on; and minutes after which nothing
# fires yet, and after which the alert does.
HOUR = "x120 "
CASES = {
    "WeftMetadataServerGone": ({'weft_build_info{program="weft-mds"}': "1x119 _x360"}, 60, 68),
    "WeftMetadataServerRestarts": ({"weft_mds_uptime_seconds": "0+30x119 0+30x9 0+30x300"}, 61, 67),
    "WeftMetadataStoreFailed": ({"weft_mds_store_failed": f"0{HOUR}1x300"}, 60, 61),
    "WeftMetadataStoreFull": ({"weft_mds_store_full": f"0{HOUR}1x300"}, 60, 61),
    "WeftMetadataStoreStalled": ({"weft_mds_store_writes_stopped": f"0{HOUR}1x300"}, 61, 63),
    "WeftIoThroughMetadataServer": (
        {'weft_mds_operations_total{op="read"}': f"7+1{HOUR}129+2x300"}, 69, 72),
    "WeftLayoutsRefused": ({"weft_mds_layouts_refused_total": f"3{HOUR}4+1x300"}, 69, 72),
    "WeftRecallUnanswered": ({"weft_mds_oldest_recall_seconds": f"60{HOUR}61x300"}, 60, 61),
    "WeftFenceFailures": ({"weft_mds_fence_failures_total": f"2{HOUR}3+1x300"}, 64, 67),
    "WeftRemovalsQueued": ({"weft_mds_removals_queued": f"0{HOUR}10+10x300"}, 119, 122),
    "WeftPlacementWarnings": ({"weft_mds_warnings": f"0{HOUR}1x300"}, 65, 67),
    "WeftServersRefused": ({"weft_mds_refused_servers": f"0{HOUR}2x300"}, 65, 67),
    "WeftDataServerNotUp": ({f"weft_mds_data_server_up{SERVER}": f"1{HOUR}0x300"}, 60.5, 62),
    "WeftDataServerUnregistered": ({f"weft_ds_registered{INSTANCE}": f"1{HOUR}0x300"}, 61, 63),
    "WeftDataServerNotAccepted": (
        {f"weft_mds_data_server_not_accepted{SERVER}": f"0{HOUR}1x300"}, 61, 63),
    "WeftDataServerStoreAway": (
        {f"weft_mds_data_server_store_away{SERVER}": f"0{HOUR}1x300"}, 60, 61),
    "WeftDataServerNearlyFull": (
        {f"weft_mds_data_server_free_bytes{SERVER}": f"5{HOUR}4x300"}, 65, 67),
    "WeftDescriptorsShort": (
        {f"weft_ds_descriptor_waits_total{INSTANCE}": f"4{HOUR}5x300"}, 60, 61),
    "WeftDrainStuck": ({f"weft_mds_data_server_objects_stuck{SERVER}": f"0{HOUR}7x300"}, 70, 72),
    "WeftMirrorPartnerAway": ({f"weft_ds_mirror_partners_away{INSTANCE}": f"0{HOUR}1x300"}, 61, 63),
    "WeftMirrorBacklog": ({f"weft_ds_mirror_pending_bytes{INSTANCE}": f"90{HOUR}91x300"}, 65, 67),
    "WeftStaleObjects": (
        {f"weft_mds_data_server_stale_objects{SERVER}": f"0{HOUR}5x300"}, 90, 92),
    "WeftRepairWaits": ({f"weft_mds_data_server_repair_waits{SERVER}": f"0{HOUR}1x300"}, 70, 72),
    "WeftRepairFailures": ({"weft_mds_repair_failures_total": f"1{HOUR}2+1x300"}, 90, 92),
    "WeftCopiesDiffer": ({"weft_mds_scrub_unresolved": f"0{HOUR}1x300"}, 60, 61),
    "WeftStrayObjects": ({"weft_mds_stray_objects": f"0{HOUR}1x300"}, 60, 61),
    "WeftForeignObjects": ({"weft_mds_foreign_objects": f"0{HOUR}1x300"}, 60, 61),
    "WeftRestoredDamaged": ({"weft_mds_restored_damaged_files": f"0{HOUR}1x300"}, 60, 61),
    "WeftParityDegraded": (
        {'weft_ds_parity_state{instance="a",state="whole"}': "1x120 _x300",
         'weft_ds_parity_state{instance="a",state="degraded"}': "_x120 1x300"}, 74, 77),
    "WeftParityTargetAwaited": (
        {f"weft_ds_parity_member_awaited{INSTANCE}": f"-1{HOUR}0x300"}, 61, 63),
    "WeftParityLostBlocks": (
        {f"weft_ds_parity_scrub_lost_blocks{INSTANCE}": f"0{HOUR}1x300"}, 60, 61),
    "WeftChecksumBadBlocks": (
        {f"weft_ds_checksum_bad_blocks_total{INSTANCE}": f"5{HOUR}6x300"}, 60, 61),
    "WeftParityGivenUpBlocks": (
        {f"weft_ds_parity_given_up_blocks{INSTANCE}": f"0{HOUR}1x300"}, 60, 61),
    "WeftParityObjectGone": (
        {f"weft_ds_parity_objects_gone_total{INSTANCE}": f"5{HOUR}6x300"}, 60, 61),
    "WeftParityReadsFail": (
        {f"weft_ds_parity_lost_blocks_total{INSTANCE}": f"5{HOUR}6x300"}, 60, 61),
    "WeftParityBadBlocks": (
        {f"weft_ds_parity_corrupt_blocks_total{INSTANCE}": f"5{HOUR}6x300"}, 60, 61),
    "WeftParityScrubCorruptBlocks": (
        {f"weft_ds_parity_scrub_corrupt_blocks{INSTANCE}": f"0{HOUR}1x300"}, 60, 61),
}


@pytest.fixture(scope="module", autouse=True)
def tool():
    if promtool.missing():
        pytest.skip(promtool.missing())


def firing(minutes: float, alerts: list[str]) -> dict:
    """Exactly these fire at that moment."""
    return {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{int(minutes * 60)}s",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}
                            for alert in alerts]}


def scenario(name: str, changes: dict[str, str], checks: list[dict]) -> dict:
    return {"name": name, "interval": "30s", "promql_expr_test": checks,
            "input_series": [{"series": series, "values": values}
                             for series, values in {**WELL, **changes}.items()]}


def test_the_rules_are_right():
    status, said = promtool.run("check", "rules", str(RULES))
    assert status == 0, said
    assert f"{len(ALERTS)} rules found" in said


def test_each_alert_fires_when_it_should_and_none_otherwise(tmp_path):
    assert set(ALERTS) == set(CASES)
    scenarios = [scenario("well", {}, [firing(at, []) for at in (1, 60, 120, 200)])]
    for alert, (changes, before, after) in CASES.items():
        scenarios.append(scenario(alert, changes, [firing(before, []), firing(after, [alert])]))
    file = tmp_path / "alerts.test.yml"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "30s",
                                "tests": scenarios}))
    status, said = promtool.run("test", "rules", str(file))
    assert status == 0, said


def test_every_alarm_of_the_documentation_has_an_alert():
    """A row names its alert, or is about a line in a log, which Prometheus does not see."""
    text = (REPOSITORY / "docs/operating.md").read_text()
    table = text.split("The numbers worth an alarm:\n\n")[1].split("\n\n")[0].splitlines()
    assert table[0] == "| number | means | alert |"
    rows = [row.strip("|").rsplit("|", 1) for row in table[2:]]
    named = [alert for _, cell in rows for alert in re.findall(r"`(Weft\w+)`", cell)]
    assert sorted(named) == sorted(ALERTS)
    without = [said for said, cell in rows if not re.search(r"`Weft\w+`", cell)]
    assert all(said.strip().startswith("`event=") for said in without), without
