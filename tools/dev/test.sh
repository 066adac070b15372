# ./dev test: builds what the tests need, runs them, and adds up.
. tools/dev/build.sh
. tools/dev/docs.sh
. tools/dev/tidy.sh

test_usage() {
  cat <<'END'
usage: ./dev test [STAGE...]

Without a STAGE: unit, tidy, tools, simulation, system, asan, fuzz, tsan; this is what the build
server runs. Stages:

  unit     unit and property tests (ctest), release build
  simulation  a whole cluster under faults: WEFT_SIM_SEEDS (1000) seeds, or as many as
           WEFT_SIM_SECONDS (300) allow
  tidy     formatting, layering, lengths, and the tests of those checks
  tools    tests of the Python tools
  system   stock-kernel clients against a whole system (pytest tests/system, without -m long)
  faults   of these, the ones that kill and cut things (pytest -m faults)
  stores   of these, client tests over each other kind of store, or the one that WEFT_STORE says
  long     all of tests/system, with the hours-long ones, and stores
  fuzz     every fuzz target for WEFT_FUZZ_SECONDS (10) seconds
  asan     unit tests under AddressSanitizer and UBSan
  tsan     unit tests under ThreadSanitizer

Arguments after -- go to pytest (system, faults, stores, long) or ctest (unit, asan, tsan). The last
line is "N passed, N failed, N skipped"; the exit status is 0 if nothing failed. Up to four tests of
a stage that failed run three times more, alone: those that pass every time are told of as unsteady.
System tests run side by side, by WEFT_TEST_WORKERS (two for each processor) workers; "-- -n 0" runs
one after another. After WEFT_TEST_BUDGET (2400) seconds the sanitizer and fuzz stages that have not
begun are skipped, and said to be. Results: build/test/*.xml.
END
}

# test_note OUTCOME NAME REASON: a result that no test program reports itself.
test_note() { printf '%s\t%s\t%s\n' "$@" >>"$test_results/dev.tsv"; }

# Runs a build; a build that fails is a failed test, and the stage ends.
test_build() {
  build_preset "$@" || { test_note failed "build of $*" "see build/log/build-$1.log"; return 1; }
}

# After a stage with failures; fails if the stage left no results.
test_again() {  # results, what tools/dev/second_look.py takes
  [ -s "$1" ] || return 1
  step "again-$(basename "$1" .xml)" "looking again at what failed" \
    /usr/bin/python3 tools/dev/second_look.py "$@" || true
}

test_ctest() {  # preset, ctest arguments
  local preset=$1
  shift
  test_build "$preset" || return 0
  step "ctest-$preset" "running unit tests, $preset" ctest --preset "$preset" -j "$WEFT_JOBS" \
    --output-junit "$test_results/ctest-$preset.xml" "$@" && return
  test_again "$test_results/ctest-$preset.xml" ctest "$preset" ||
    test_note failed "ctest $preset" "did not run"
}

test_pytest() {  # name, text, pytest arguments
  local name=$1 text=$2 xml=$test_results/pytest-$1.xml
  shift 2
  step "pytest-$name" "$text" /usr/bin/python3 -m pytest -p no:cacheprovider -rfEs \
    --junitxml="$xml" -o junit_family=xunit2 "$@" && return
  test_again "$xml" pytest || test_note failed "pytest $name" "did not run"
}

test_unit() { test_ctest release "$@"; }
test_asan() { test_ctest asan "$@"; }
test_tsan() { test_ctest tsan "$@"; }

test_simulation() {
  local log=$WEFT_LOGS/simulation.log seeds=${WEFT_SIM_SEEDS:-1000} said
  test_build release || return 0
  if step simulation "running simulated clusters" build/release/tests/simulation/simulation \
    --count "$seeds" --seconds "${WEFT_SIM_SECONDS:-300}" --jobs "$WEFT_JOBS"; then
    said=$(tail -n 1 "$log")  # "N of M seeds in T s, 0 failed"
    test_note passed simulation "$said"
    [ "${said%% *}" -eq "$seeds" ] || test_note skipped "some seeds of simulation" \
      "only ${said%,*}, which is the time it has; WEFT_SIM_SECONDS=0 runs all"
  else
    test_note failed simulation "$(grep -m 1 FAILED "$log" || tail -n 1 "$log")"
  fi
}

test_tools() {
  local folders
  docs_deps || test_note failed "the site's packages" "see build/log/docs-deps.log"
  mapfile -t folders < <(git ls-files 'tools/*test_*.py' 'tests/*test_*.py' |
    grep -v '^tests/system/\(ganesha/\)\?test_' | xargs -r dirname | sort -u)
  test_pytest tools "running the tests of the tools" "${folders[@]}"
}

test_tidy() {
  local log=$WEFT_LOGS/tidy.log
  mkdir -p "$WEFT_LOGS"
  say "checking formatting, layering, lengths, headers"
  if { /usr/bin/python3 tools/dev/tidy/tidy.py && /usr/bin/python3 tools/dev/tidy/headers.py; } \
    >"$log" 2>&1; then
    test_note passed tidy ""
  else
    cat "$log"
    test_note failed tidy "$(tail -n 1 "$log")"
  fi
}

test_system_run() {  # name, text, pytest arguments
  local name text
  if [ "$(id -u)" -ne 0 ]; then
    test_note skipped "$1" "needs root for network namespaces and client machines"
  elif [ ! -d tests/system ]; then
    test_note skipped "$1" "no tests/system in this tree"
  else
    test_build release || return 0
    # Ganesha's VFS reads it. Every Debian machine has it, a container may not.
    [ -e /etc/mtab ] || ln -s ../proc/self/mounts /etc/mtab
    step clients "building the client machines (cached from then on)" \
      bash tools/dev/clients.sh build all ||
      test_note failed "client machines" "see build/log/clients.log"
    name=$1 text=$2
    shift 2
    test_pytest "$name" "$text" -v -n "${WEFT_TEST_WORKERS:-auto}" "$@"
  fi
}
test_system() {
  test_system_run system "running system tests with kernel clients" -m 'not long' tests/system "$@"
}
test_faults() {
  WEFT_FAULT_ROUNDS=${WEFT_FAULT_ROUNDS:-200} WEFT_FAULT_POINTS=${WEFT_FAULT_POINTS:-500} \
    test_system_run faults "running the fault tests" -m faults tests/system "$@"
}
test_stores() {
  local kind
  for kind in ${WEFT_STORE:-segments shm tcp parity3 parity4 parity3-tcp}; do
    WEFT_STORE=$kind test_system_run "stores-$kind" "running client tests over $kind" \
      -m 'any_store and not long' tests/system "$@"
  done
}
test_long() {
  test_system_run long "running all system tests, long ones too" tests/system "$@"
  test_stores "$@"
}

# Those that test_ahead has run already are not run again; fuzz.done says that it ran all.
test_fuzz() {
  local targets target left=() seconds=${WEFT_FUZZ_SECONDS:-10}
  [ ! -e "$test_results/fuzz.done" ] || return 0
  test_build asan fuzzers || return 0
  mapfile -t targets < <(find build/asan/tests/fuzz -type f -executable -name '*fuzz*' | sort)
  [ ${#targets[@]} -gt 0 ] || { test_note failed fuzz "no fuzz target was built"; return 0; }
  for target in "${targets[@]}"; do
    grep -qsF $'\tfuzz: '"${target##*/}"$'\t' "$test_results/fuzz.tsv" || left+=("$target")
  done
  [ ${#left[@]} -gt 0 ] || return 0
  step fuzz "fuzzing ${#left[@]} decoders and the like, $seconds s each" \
    /usr/bin/python3 tools/dev/fuzz.py --seconds "$seconds" --jobs "$WEFT_JOBS" \
    --results "$test_results" --corpora build/corpus "${left[@]}" ||
    [ -s "$test_results/fuzz.tsv" ] || test_note failed fuzz "did not run"
}

# System tests wait a lot, for leases and timeouts. Meanwhile, and only in a full run, the trees of
# the sanitizers are built with the processor time that is left over, and if they are, the fuzz
# targets run. What is wrong with the builds is said by their own stages, which build what is
# missing then. Where the kernel shares the processors among sessions (autogroups), this one is
# nice as a whole.
test_ahead() {
  local preset
  for preset in asan tsan; do
    cmake --preset $preset && cmake --build --preset $preset -j "$WEFT_JOBS" -- -k 0 || return
  done
  test_fuzz
  : >"$test_results/fuzz.done"
}
test_ahead_start() {
  [ "$test_everything" -eq 1 ] || return 0
  mkdir -p "$WEFT_LOGS"
  test_results=$test_results WEFT_JOBS=$WEFT_JOBS setsid nice -n 19 bash -uc \
    'echo 19 >/proc/self/autogroup
     . tools/dev/common.sh; . tools/dev/test.sh; test_ahead' \
    >"$WEFT_LOGS/ahead.log" 2>&1 </dev/null &
  test_ahead=$!
}
test_ahead_stop() {
  [ -n "${test_ahead:-}" ] || return 0
  kill -- "-$test_ahead" 2>/dev/null
  wait "$test_ahead" 2>/dev/null
  test_ahead=""
}

test_stage() {
  local stage=$1
  shift
  case $stage in
    fuzz | asan | tsan)
      if [ "$test_everything" -eq 1 ] && [ $SECONDS -gt "${WEFT_TEST_BUDGET:-2400}" ] &&
        ! [ -e "$test_results/$stage.done" ]; then
        test_note skipped "$stage" "the time budget was used up; run ./dev test $stage"
        return 0
      fi
      ;;
  esac
  "test_$stage" "$@"
}

test_main() {
  local stages=() stage
  test_everything=0
  test_results=$WEFT_ROOT/build/test
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
      unit | tidy | tools | simulation | system | faults | stores | long | fuzz | asan | tsan)
        stages+=("$1")
        ;;
      *) test_usage >&2; return 2 ;;
    esac
    shift
  done
  [ $# -eq 0 ] || shift
  if [ ${#stages[@]} -eq 0 ]; then
    stages=(unit tidy tools simulation system asan fuzz tsan)
    test_everything=1
  fi
  deps && build_ganesha || return 1
  rm -rf "$test_results"
  mkdir -p "$test_results"
  trap test_ahead_stop EXIT
  for stage in "${stages[@]}"; do
    [ "$stage" != system ] || test_ahead_start
    test_stage "$stage" "$@"
    test_ahead_stop
  done
  say "done: ${stages[*]}"
  /usr/bin/python3 tools/dev/summary.py "$test_results"
}
