# ./dev docs: the documentation as a site.
. tools/dev/deps.sh

docs_usage() {
  cat <<'END'
usage: ./dev docs

Builds the documentation into build/docs, as a site that can be served, or read from that folder:
build/docs/index.html. In it are the pages of docs/, the manual pages, and reference pages of all
options and metrics. Installs what that needs (mkdocs-material, mandoc, scdoc).
END
}

docs_packages=(mkdocs-material mandoc scdoc)

docs_deps() {
  local missing
  mapfile -t missing < <(printf '%s\n' "${docs_packages[@]}" | deps_missing)
  [ ${#missing[@]} -gt 0 ] || return 0
  need_root "installing packages (${missing[*]})" || return 1
  step docs-deps "installing ${#missing[@]} packages" deps_install "${missing[@]}"
}

# Which need the packages, and nothing else.
docs_build() {
  /usr/bin/python3 tools/dev/docs.py build/docs-pages && mkdocs build --strict --clean
}

docs_main() {
  [ $# -eq 0 ] || { docs_usage >&2; return 2; }
  docs_deps && step docs "building the site" docs_build && say "built: build/docs/index.html"
}
