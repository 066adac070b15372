# ./dev package: Debian packages, and their tests.
. tools/dev/deps.sh

package_out=$WEFT_ROOT/build/packages

package_usage() {
  cat <<'END'
usage: ./dev package [--no-tests]

Builds Debian packages of this tree for the release of this machine, into build/packages:
weft-mds, weft-ds, weft-target, weft-tools, weft-doc, and -dbgsym packages. Installs what the build
needs, and downloads NFS-Ganesha's sources unless WEFT_CACHE has them. Then tests the packages:
lintian, and tests/dist, which installs them into bare root folders, removes and purges them, and
lets machines made of such folders serve a real Linux client. With --no-tests they are only built.
END
}

package_deps() {
  local missing
  mapfile -t missing < <({
    printf '%s\n' dpkg-dev debhelper fakeroot lintian piuparts systemd-container bash-completion
    for script in ganesha clients; do
      bash "tools/dev/$script.sh" --print-packages | tr -s ' ' '\n'
    done
  } | deps_missing)
  if [ ${#missing[@]} -gt 0 ]; then
    need_root "installing packages (${missing[*]})" || return 1
    step package-tools "installing ${#missing[@]} packages" deps_install "${missing[@]}" || return 1
  fi
  dpkg-checkbuilddeps >/dev/null 2>&1 && return
  need_root "installing what the packages are built with" || return 1
  step package-deps "installing what debian/control names" deps_apt build-dep "$WEFT_ROOT"
}

# The files that git knows, as they are here. What a build leaves in the tree is not in packages.
package_copy() {
  rm -rf "${package_out:?}" && mkdir -p "$package_out/source" || return 1
  { git ls-files -z --cached --others --exclude-standard; } |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null -T - -cf - | tar -xf - -C "$package_out/source"
}

package_build() {
  export CCACHE_DIR
  CCACHE_DIR=$(ccache --get-config cache_dir)
  cd "$package_out/source" &&
    DEB_BUILD_OPTIONS="parallel=$WEFT_JOBS ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -b -us -uc
}

package_main() {
  local tests=1
  case ${1:-} in
    "") ;;
    --no-tests) tests=0 ;;
    *) package_usage >&2; return 2 ;;
  esac
  package_deps || return 1
  step package-sources "looking for NFS-Ganesha's sources" bash tools/dev/ganesha.sh --fetch &&
    package_copy &&
    step package-build "building packages" package_build || return 1
  say "built: $(cd "$package_out" && echo *.deb)"
  [ $tests -eq 1 ] || return 0
  need_root "testing packages" || return 1
  step package-lintian "lintian" lintian --allow-root --fail-on error,warning \
    --info --show-overrides "$package_out"/*.changes || return 1
  step package-client "a client machine (cached from then on)" \
    bash tools/dev/clients.sh build uml61 || return 1
  export WEFT_PACKAGES=$package_out
  step package-tests "installing, removing, serving: tests/dist" /usr/bin/python3 -m pytest \
    -p no:cacheprovider -v -rfEs tests/dist &&
    say "$(tail -n 1 "$WEFT_LOGS/package-tests.log")"
}
