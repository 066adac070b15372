# ./dev client: a shell in a client machine.
. tools/dev/build.sh
. tools/dev/system.sh

client_usage() {
  cat <<'END'
usage: ./dev client [uml61|uml612|qemu61]

A root shell in a machine with a stock Linux NFS client (uml61 by default: User-mode Linux 6.1).
When a system is up (./dev up), it is mounted at /mnt/nfs. Leaving the shell halts the machine.
END
}

client_main() {
  local kind=${1:-uml61} target=()
  case $kind in
    uml61 | uml612 | qemu61) ;;
    *) client_usage >&2; return 2 ;;
  esac
  need_root "./dev client" || return 1
  deps || return 1
  step client-machine "building a client machine (cached from then on)" \
    bash tools/dev/clients.sh build "$kind" || return 1
  if system_is_up; then
    target=("$(system_address)" "$system_export")
    say "mounting ${target[0]}:${target[1]} at /mnt/nfs"
  else
    say "no system is up (./dev up starts one); nothing is mounted"
  fi
  PYTHONPATH=tests/system PYTHONDONTWRITEBYTECODE=1 \
    exec /usr/bin/python3 -m harness.shell "${target[@]}" --kind "$kind"
}
