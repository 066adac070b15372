# What the subcommands of ./dev share: where things are, how to say what happens, how to run a
# long command with its output in a log. Sourced by ./dev with WEFT_ROOT set.

WEFT_CACHE=${WEFT_CACHE:-/var/cache/weft}
WEFT_STATE=${WEFT_STATE:-/var/lib/weft-dev}
WEFT_GANESHA_PREFIX=${WEFT_GANESHA_PREFIX:-/opt/weft-ganesha}
WEFT_JOBS=${WEFT_JOBS:-$(nproc)}
WEFT_LOGS=$WEFT_ROOT/build/log
export WEFT_ROOT WEFT_CACHE WEFT_STATE WEFT_GANESHA_PREFIX

# One line, with the minutes and seconds since ./dev started.
say() { printf '[%02d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
fail() { printf '[%02d:%02d] FAILED: %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; return 1; }

need_root() {
  [ "$(id -u)" -eq 0 ] || { fail "$1 needs root: run it as root"; return 1; }
}

# The last line of a log, for people: of a build how far it is and at what.
step_line() {
  tail -c 400 "$1" | tr '\r\0' '\n' | grep . | tail -n 1 | sed -E \
    -e 's#^\[([0-9]+)/([0-9]+)\] .* ([^ ]*)CMakeFiles/[^/]*\.dir/(.*)\.o$#\1 of \2: \3\4#' \
    -e 's#^\[([0-9]+)/([0-9]+)\] #\1 of \2: #' | cut -c 1-90
}

# step NAME TEXT COMMAND...: runs COMMAND with its output in build/log/NAME.log; on a terminal the
# last line of it is shown meanwhile, elsewhere a line each WEFT_SAY_EVERY (60) seconds. On failure
# its end is printed.
step() {
  local name=$1 text=$2 log=$WEFT_LOGS/$1.log pid status started=$SECONDS said=$SECONDS
  shift 2
  mkdir -p "$WEFT_LOGS"
  say "$text"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if [ -t 1 ]; then
      printf '\r\033[K        %.70s' "$(step_line "$log")"
    elif [ $((SECONDS - said)) -ge "${WEFT_SAY_EVERY:-60}" ]; then
      said=$SECONDS
      say "  still at it: $(step_line "$log")"
    fi
  done
  [ ! -t 1 ] || printf '\r\033[K'
  wait "$pid"
  status=$?
  trap - INT TERM
  [ $status -eq 0 ] || {
    tail -n 40 "$log" >&2
    fail "$text ($((SECONDS - started)) s); all of it: ${log#"$WEFT_ROOT"/}"
    return $status
  }
}
