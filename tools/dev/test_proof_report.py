"""Tests of proof_report.py."""

import io
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import proof_report  # noqa: E402

MIB = 1 << 20


def status(mds_reads, servers):
    return {'mds_read_calls': mds_reads + 7, 'mds_write_calls': 9,
            'inline': {'reads': 7, 'writes': 9}, 'data_servers': [
        {'id': number, 'name': f'ds{number}', 'addresses': [f'10.79.0.1:{2050 + number}'],
         'written_bytes': written, 'read_bytes': read}
        for number, (written, read) in enumerate(servers, 1)]}


def run(before, after):
    out = io.StringIO()
    log = 'kernel 6.1.0\nwrite_mib_s 500\nread_mib_s 700\nsha256 abc\ndriver LAYOUT_NFSV4_1_FILES\n'
    return proof_report.report(before, after, log, out), out.getvalue()


def test_counts_what_was_added():
    code, text = run(status(3, [(MIB, MIB), (0, 0)]), status(3, [(65 * MIB, 65 * MIB),
                                                                  (64 * MIB, 64 * MIB)]))
    assert code == 0
    assert 'ds1           10.79.0.1:2051              64.0 MiB    64.0 MiB' in text
    assert 'served by the metadata server: 0 READ, 0 WRITE' in text
    assert 'Linux 6.1.0, layout driver LAYOUT_NFSV4_1_FILES' in text


def test_io_at_the_metadata_server_fails():
    code, text = run(status(0, []), status(2, []))
    assert code == 1
    assert 'FAILED' in text


def test_a_restarted_server_and_a_new_one():
    code, text = run(status(0, [(100 * MIB, 0)]), status(0, [(5 * MIB, 0), (7 * MIB, 0)]))
    assert code == 0
    assert '5.0 MiB' in text and '7.0 MiB' in text
