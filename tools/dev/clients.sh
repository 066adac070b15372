#!/bin/bash
# Client machines with a stock Linux NFS client: builds and caches them, says what is needed.
#
#   tools/dev/clients.sh build [uml61|qemu61|uml612|rdma|all]   nothing is done twice; default uml61
#   tools/dev/clients.sh list                              which are built, and where
#   tools/dev/clients.sh --print-packages                  the Debian packages they need on the host
#
# Everything is in tests/system/harness; docs/testing.md explains it.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH=$root/tests/system PYTHONDONTWRITEBYTECODE=1
if [ "${1:-}" = --print-packages ] && ! [ -x /usr/bin/python3 ]; then
  # A fresh machine has no Python yet; the list is in one line of images.py's HOST_PACKAGES.
  sed -n '/^HOST_PACKAGES/,/]/p' "$root/tests/system/harness/images.py" |
    grep -o '"[^"]*"' | tr -d '"'
  exit
fi
exec /usr/bin/python3 -m harness.images "$@"
