"""fio with verification: every byte carries its block's checksum and place."""

import itertools

import pytest
from harness.counters import MIB, through_data_servers

pytestmark = pytest.mark.any_store

FIO = """
set -e
cd {folder}
common="--name=v --filename=f --size={mib}M --bs={bs} --direct={direct} --ioengine={engine}
  --verify=crc32c --verify_fatal=1 --verify_state_save=0
  --random_generator=tausworthe64 --randseed=7 --minimal"
fio $common --rw={rw} --do_verify=0 --end_fsync=1 > /tmp/fio.log || {{ cat /tmp/fio.log; exit 1; }}
weft-drop-caches
fio $common --rw={rw} --verify_only > /tmp/fio.log || {{ cat /tmp/fio.log; exit 1; }}
"""
QUICK = [("write", "4k", 0), ("randwrite", "4k", 0), ("randwrite", "4k", 1), ("write", "64k", 1),
         ("randwrite", "256k", 0), ("randwrite", "1M", 1), ("write", "4M", 0), ("write", "4M", 1)]
LONG = [each for each in itertools.product(["write", "randwrite"],
                                           ["4k", "16k", "64k", "256k", "1M", "4M"], [0, 1])]


def fio(folder, rw, bs, direct, mib, engine="psync") -> str:
    """Writes a file and reads it back."""
    return FIO.format(folder=folder, rw=rw, bs=bs, direct=direct, mib=mib, engine=engine)


def verify(cluster, client, folder, rw, bs, direct, mib, timeout_s):
    with through_data_servers(cluster, written=mib * MIB, read=mib * MIB):
        client.run(fio(folder, rw, bs, direct, mib), timeout_s)


@pytest.mark.parametrize("rw,bs,direct", QUICK)
def test_verified(cluster, client, folder, rw, bs, direct):
    verify(cluster, client, folder, rw, bs, direct, 4 if bs == "4k" else 16, 60)


@pytest.mark.long
@pytest.mark.parametrize("rw,bs,direct", LONG)
def test_verified_at_length(cluster, client, folder, rw, bs, direct):
    verify(cluster, client, folder, rw, bs, direct, 64 if bs == "4k" else 256, 600)


def test_mixed_readers_and_writers_of_one_file(cluster, client, folder):
    """Four jobs at once, each in its own part of one file, reading back what it wrote."""
    with through_data_servers(cluster, written=16 * MIB):
        client.run(f"""cd {folder} && fio --name=m --filename=f --rw=randrw --bsrange=4k-512k \\
  --size=4M --offset_increment=4M --numjobs=4 --verify=crc32c --verify_fatal=1 --direct=1 \\
  --verify_state_save=0 --verify_backlog=8 --ioengine=psync --group_reporting --minimal \\
  > /tmp/fio.log \\
  || {{ cat /tmp/fio.log; exit 1; }}""", 120)
