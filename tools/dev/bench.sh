# ./dev bench: finds and runs a benchmark. Each is an executable tools/dev/bench/NAME.sh or NAME.py
# whose second line is a comment that says what it measures.
. tools/dev/build.sh

bench_list() {
  local file
  for file in tools/dev/bench/*.sh tools/dev/bench/*.py; do
    [ -x "$file" ] || continue
    printf '  %-12s %s\n' "$(basename "${file%.*}")" "$(sed -n '2s/^[#" ]*//p' "$file")"
  done
}

bench_usage() {
  cat <<'END'
usage: ./dev bench NAME [ARGUMENTS]

Builds the release preset and runs the benchmark NAME; ./dev bench NAME --help says what arguments
it takes. Results go to results/. 'papers' builds and runs nothing: it prints what is there beside
the papers' figures. The benchmarks:
END
  bench_list
}

bench_main() {
  local name=${1:-} file
  [ -n "$name" ] || { bench_usage; return 0; }
  shift
  for file in "tools/dev/bench/$name.sh" "tools/dev/bench/$name.py"; do
    [ -x "$file" ] || continue
    case $name:${1:-} in
      papers:* | *:-h | *:--help) ;;
      *) deps && build_ganesha && build_preset release || return 1 ;;
    esac
    "$file" "$@"
    return
  done
  fail "no benchmark '$name'"
  bench_usage >&2
  return 2
}
