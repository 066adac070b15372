# ./dev clean: removes what was built.

clean_usage() {
  cat <<'END'
usage: ./dev clean [--all]

Removes build/. With --all also WEFT_CACHE (/var/cache/weft: downloads, client machines, Ganesha's
build tree) and the private Ganesha prefix (/opt/weft-ganesha). A running system (./dev up) is not
touched: ./dev down stops it.
END
}

clean_main() {
  case ${1:-} in
    "") ;;
    --all) need_root "./dev clean --all" || return 1 ;;
    *) clean_usage >&2; return 2 ;;
  esac
  rm -rf "$WEFT_ROOT/build" || return 1
  say "removed build/"
  [ "${1:-}" = --all ] || return 0
  rm -rf "${WEFT_CACHE:?}" "${WEFT_GANESHA_PREFIX:?}" || return 1
  say "removed $WEFT_CACHE and $WEFT_GANESHA_PREFIX"
}
