# ./dev package: Debian packages, and their tests.
. tools/dev/deps.sh

package_usage() {
  cat <<'END'
usage: ./dev package [--release CODENAME] [--no-tests] [--from COMMIT|last]

Builds Debian packages of this tree for a release of Debian, bookworm or trixie; for that of this
machine unless told otherwise. They are in build/packages/CODENAME then: weft-mds, weft-ds,
weft-target, weft-tools, weft-doc, and -dbgsym packages. They are built without a network in a root
folder of that release, which is made when there is none in WEFT_CACHE and has what debian/control
names. NFS-Ganesha's sources are downloaded unless WEFT_CACHE has them. Then tests the packages:
lintian, and tests/dist, which installs them into bare root folders of that release, removes and
purges them, and lets machines made of such folders serve a real Linux client. What is skipped is
told with its reason. With --no-tests they are only built.

The upgrade is tested from the packages under test with an older number. --from builds those of a
commit of this repository and upgrades from them; "last" is the newest with the subject "version
NUMBER" of which the NUMBER is not this tree's. That takes as long as building this tree, or longer
where ccache has little of it, and is kept in WEFT_CACHE/packages. Packages of "last" that are there
are taken without being asked for.
END
}

declare -A package_numbers=([bookworm]=12 [trixie]=13)

package_deps() {
  local missing
  mapfile -t missing < <({
    printf '%s\n' dpkg-dev lintian piuparts systemd-container bash-completion ccache
    for script in ganesha clients; do
      bash "tools/dev/$script.sh" --print-packages | tr -s ' ' '\n'
    done
  } | deps_missing)
  [ ${#missing[@]} -eq 0 ] && return
  need_root "installing packages (${missing[*]})" || return 1
  step package-tools "installing ${#missing[@]} packages" deps_install "${missing[@]}"
}

# Those of a later release of Debian have the greater version, so that an upgrade replaces them.
package_number() {  # release, source folder
  sed -i "1s/^weft (\\([^)]*\\)) [^;]*/weft (\\1+deb${package_numbers[$1]}) $1/" \
    "$2/debian/changelog"
}

# The files that git knows, as they are here. What a build leaves in the tree is not in packages.
package_copy() {  # release
  rm -rf "${package_out:?}" && mkdir -p "$package_out/source" || return 1
  { git ls-files -z --cached --others --exclude-standard; } |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --null -T - -cf - | tar -xf - -C "$package_out/source" || return 1
  package_number "$1" "$package_out/source"
}

# The commit that --from means. A release with this tree's own number is not one before it.
package_commit() {  # COMMIT or "last"
  local own
  if [ "$1" = last ]; then
    own=$(sed -n '1s/^weft (\(.*\)) .*/\1/p' debian/changelog)
    git log --format='%H %s' | awk -v own="$own" '
      $2 == "version" && NF == 3 && $3 ~ /^[0-9][0-9.]*$/ && $3 != own && !found++ { print $1 }
      END { exit !found }'
  else
    git rev-parse --verify --quiet "$1^{commit}"
  fi
}

package_kept() { echo "$WEFT_CACHE/packages/$1-${2:0:12}"; }  # release, commit

# Packages of a commit, which stay where they are built. It may need other packages than this one.
package_older() {  # release, commit
  local package_out root
  package_out=$(package_kept "$1" "$2")
  [ ! -e "$package_out/built" ] || return 0
  rm -rf "${package_out:?}" && mkdir -p "$package_out/source" &&
    git archive "$2" | tar -xf - -C "$package_out/source" &&
    package_number "$1" "$package_out/source" &&
    step package-older-root "a root folder to build ${2:0:12} in (cached from then on)" \
      package_root "$1" "$package_out/source/debian/control" || return 1
  root=$(tail -n 1 "$WEFT_LOGS/package-older-root.log")
  step package-older "building packages of ${2:0:12} (cached from then on)" \
    package_build "$root" && rm -rf "$package_out/source" && touch "$package_out/built"
}

# Runs tests of packages; tells what failed, and what was skipped and why.
package_pytest() {  # what pytest takes
  local results=$WEFT_ROOT/build/test-packages
  rm -rf "$results" && mkdir -p "$results" || return 1
  step package-tests "installing, removing, serving: tests/dist" /usr/bin/python3 -m pytest \
    -p no:cacheprovider -v -rfEs --junitxml="$results/pytest-dist.xml" \
    -o junit_family=xunit2 "$@" || [ -s "$results/pytest-dist.xml" ] || return 1
  /usr/bin/python3 tools/dev/summary.py "$results"
}

# Makes a root folder, of this tree's debian/control or another's; prints its path in the end.
package_root() {  # release, debian/control
  PYTHONPATH=tests/system PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m harness.build_root "$@"
}

package_build() {  # root folder
  local ccache
  ccache=$(ccache --get-config cache_dir) && mkdir -p "$ccache" || return 1
  # --keep-unit and --register: this machine may have another init than systemd.
  systemd-nspawn --quiet --register=no --keep-unit --private-network --as-pid2 \
    --volatile=overlay --directory="$1" --bind="$package_out:/packages" \
    --bind="$ccache:/ccache" --bind-ro="$WEFT_CACHE/downloads:/cache/downloads" \
    --setenv=CCACHE_DIR=/ccache --setenv=WEFT_CACHE=/cache --chdir=/packages/source \
    --setenv=DEB_BUILD_OPTIONS="parallel=$WEFT_JOBS ${DEB_BUILD_OPTIONS:-}" \
    dpkg-buildpackage -b -us -uc
}

package_main() {
  local tests=1 release root from="" older=""
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  while [ $# -gt 0 ]; do
    case $1 in
      --no-tests) tests=0 ;;
      --release)
        [ $# -gt 1 ] || { package_usage >&2; return 2; }
        release=$2
        shift
        ;;
      --from)
        [ $# -gt 1 ] || { package_usage >&2; return 2; }
        from=$2
        shift
        ;;
      -h | --help) package_usage; return 0 ;;
      *) package_usage >&2; return 2 ;;
    esac
    shift
  done
  [ -n "${package_numbers[$release]:-}" ] || {
    fail "no packages for '$release': --release takes ${!package_numbers[*]}"
    return 2
  }
  if [ -n "$from" ]; then
    older=$(package_commit "$from") || { fail "--from: there is no commit $from"; return 2; }
  else
    older=$(package_commit last)
    [ -n "$older" ] && [ -e "$(package_kept "$release" "$older")/built" ] || older=""
  fi
  package_out=$WEFT_ROOT/build/packages/$release
  package_deps || return 1
  need_root "building in a root folder" || return 1
  step package-sources "looking for NFS-Ganesha's sources" bash tools/dev/ganesha.sh --fetch &&
    step package-root "a root folder of $release to build in (cached from then on)" \
      package_root "$release" || return 1
  root=$(tail -n 1 "$WEFT_LOGS/package-root.log")
  package_copy "$release" &&
    step package-build "building packages for $release" package_build "$root" || return 1
  say "built: $(cd "$package_out" && echo *.deb)"
  if [ -n "$older" ]; then
    package_older "$release" "$older" || return 1
    export WEFT_OLDER_PACKAGES
    WEFT_OLDER_PACKAGES=$(package_kept "$release" "$older")
    say "the upgrade is tested from $WEFT_OLDER_PACKAGES"
  fi
  [ $tests -eq 1 ] || return 0
  step package-lintian "lintian" lintian --allow-root --fail-on error,warning \
    --info --show-overrides "$package_out"/*.changes || return 1
  step package-client "a client machine (cached from then on)" \
    bash tools/dev/clients.sh build uml61 || return 1
  export WEFT_PACKAGES=$package_out
  package_pytest tests/dist
}
