# ./dev down: stops what ./dev up started.
. tools/dev/system.sh

down_usage() {
  cat <<'END'
usage: ./dev down [--forget]

Stops the system that ./dev up started. Its stores stay, and the next ./dev up continues with
them; --forget removes them (all of WEFT_STATE, /var/lib/weft-dev).
END
}

down_main() {
  case ${1:-} in
    "" | --forget) ;;
    *) down_usage >&2; return 2 ;;
  esac
  need_root "./dev down" || return 1
  system_stop || return 1
  [ "${1:-}" != --forget ] || system_forget
}
