# ./dev tidy: formatting, layering, lengths, words that may not be in the repository.
. tools/dev/deps.sh

tidy_usage() {
  cat <<'END'
usage: ./dev tidy [--fix]

Checks the tree: clang-format, which folder includes which, lengths of files and functions, and
that nothing names a package registry or a path of somebody's machine, and that every header
compiles alone. --fix formats in place first. The checks are Python in tools/dev/tidy/.
END
}

tidy_main() {
  case ${1:-} in
    --fix)
      git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' |
        xargs -0 -r clang-format-19 -i
      ;;
    "") ;;
    *) tidy_usage >&2; return 2 ;;
  esac
  deps && /usr/bin/python3 tools/dev/tidy/tidy.py && /usr/bin/python3 tools/dev/tidy/headers.py
}
