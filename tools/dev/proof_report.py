"""What ./dev up shows: where the bytes of the proof went, by what the servers counted.

    proof_report.py BEFORE AFTER PROOF-LOG      (weft status --output json; harness.prove's output)

Ends with 1 if the metadata server had to serve READs or WRITEs.
"""

import json
import pathlib
import sys

MIB = 1 << 20


def grown(after, before):
    """A server that was restarted in between counts from 0 again."""
    return after - before if after >= before else after


def traffic(before, after):
    """Rows (name, addresses, written, read), in bytes."""
    old = {server['id']: server for server in before['data_servers']}
    rows = []
    for server in after['data_servers']:
        then = old.get(server['id'], {'written_bytes': 0, 'read_bytes': 0})
        rows.append((server['name'], ' '.join(server['addresses']),
                     grown(server['written_bytes'], then['written_bytes']),
                     grown(server['read_bytes'], then['read_bytes'])))
    return rows


def facts(log):
    """The 'key value' lines of the proof."""
    return dict(line.split(' ', 1) for line in log.splitlines() if ' ' in line)


def fell_back(status, kind):
    """READs or WRITEs at the metadata server, but those of inline files."""
    return status[f'mds_{kind}_calls'] - status['inline'][f'{kind}s']


def report(before, after, log, out=sys.stdout):
    known = facts(log)
    print(f"\nclient   Linux {known.get('kernel', '?')}, layout driver "
          f"{known.get('driver', '?')}", file=out)
    print(f"copied   in at {known.get('write_mib_s', '?')} MiB/s, out at "
          f"{known.get('read_mib_s', '?')} MiB/s, checksums equal", file=out)
    print(f"sha256   {known.get('sha256', '?')}\n", file=out)
    rows = traffic(before, after)
    print(f"{'data server':<14}{'address':<24}{'written':>12}{'read':>12}", file=out)
    for name, addresses, written, read in rows:
        print(f'{name:<14}{addresses:<24}{written / MIB:>8.1f} MiB{read / MIB:>8.1f} MiB', file=out)
    print('\nEach file has two copies, on data servers of different failure domains: what a data '
          'server\nis written includes what another one brings it.', file=out)
    reads, writes = (fell_back(after, kind) - fell_back(before, kind) for kind in ('read', 'write'))
    print(f'\nserved by the metadata server: {reads} READ, {writes} WRITE', file=out)
    if reads or writes:
        print('FAILED: the client fell back to the metadata server', file=out)
    return 1 if reads or writes else 0


def main():
    before, after = (json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:3])
    return report(before, after, pathlib.Path(sys.argv[3]).read_text())


if __name__ == '__main__':
    sys.exit(main())
