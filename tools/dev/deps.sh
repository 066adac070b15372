# Debian packages: what a fresh Debian 12 machine needs to build, test and run everything.
#
# When all are there, nothing is run but one dpkg-query. Otherwise apt-get installs what is
# missing; the package lists are brought up to date only when they don't know a package. Catch2 v3
# is in Debian 12's backports, which the machine's own apt need not know: it is fetched with lists
# and a cache of our own from the mirror that the machine already uses, and nothing of the
# machine's apt configuration is changed.

deps_packages=(
  # Compilers and tools.
  clang-19 clang-format-19 clang-tidy-19 lld-19 libclang-rt-19-dev llvm-19 ccache cmake ninja-build
  pkg-config g++ patch git python3 python3-pytest python3-pytest-xdist python3-matplotlib scdoc
  # Libraries of weft, weft-ds and libfsalweft.so.
  libboost1.81-dev libspdlog-dev libcli11-dev libtomlplusplus-dev prometheus-cpp-dev libcivetweb-dev
  liburing-dev libisal-dev libxxhash-dev nlohmann-json3-dev libssl-dev librocksdb-dev
  libibverbs-dev librdmacm-dev
  # Tests and benchmarks.
  librapidcheck-dev libbenchmark-dev iproute2 procps util-linux linux-perf
)
deps_backports=(libcatch2-dev catch2)

deps_all() {
  local script
  printf '%s\n' "${deps_packages[@]}"
  for script in ganesha clients; do
    [ ! -f "tools/dev/$script.sh" ] ||
      bash "tools/dev/$script.sh" --print-packages | tr -s ' ' '\n'
  done
}

# Those of the packages named on standard input that are not installed.
deps_missing() {
  local wanted
  mapfile -t wanted < <(grep . | LC_ALL=C sort -u)
  LC_ALL=C comm -23 <(printf '%s\n' "${wanted[@]}") \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
      sed -n 's/^installed //p' | LC_ALL=C sort -u)
}

deps_catch2_is_v3() {
  dpkg --compare-versions \
    "$(dpkg-query -W -f '${Version}' libcatch2-dev 2>/dev/null || echo 0)" ge 3
}

deps_apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=3 "$@"
}

# Debian's mirror in this machine's apt configuration, for the running release.
deps_mirror() {
  local codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
    "Codename: $codename" 'Component: main' 2>/dev/null | sort -u | head -n 1
}

deps_install_backports() {
  local mirror codename own
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(deps_mirror)
  if [ -z "$mirror" ]; then
    deps_apt update || return 1
    mirror=$(deps_mirror)
  fi
  [ -n "$mirror" ] || {
    echo "no Debian mirror for $codename in this machine's apt configuration" >&2
    return 1
  }
  own=$WEFT_CACHE/apt
  mkdir -p "$own"/{lists/partial,archives/partial} || return 1
  # The machine's own lists take part, so that what these packages depend on is found.
  {
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $codename main"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
      "$mirror $codename-backports main"
  } >"$own/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$own/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$own/lists" -o "Dir::Cache::archives=$own/archives"
    -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" -o APT::Sandbox::User=root
    -o APT::Update::Error-Mode=any)
  deps_apt "${options[@]}" update &&
    deps_apt "${options[@]}" install --no-install-recommends -t "$codename-backports" "$@"
}

deps_install() {
  local missing=("$@")
  # What the lists know of, they can be asked for; otherwise they are old or absent.
  apt-get -q --simulate install --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    deps_apt update || return 1
  deps_apt install --no-install-recommends "${missing[@]}" && return 0
  # Lists that are there but old name files that the mirror has dropped.
  deps_apt update && deps_apt install --no-install-recommends "${missing[@]}"
}

# Installs what is missing.
deps() {
  local missing
  mapfile -t missing < <(deps_all | deps_missing)
  if [ ${#missing[@]} -gt 0 ]; then
    need_root "installing packages (${missing[*]})" || return 1
    step deps "installing ${#missing[@]} packages" deps_install "${missing[@]}" || return 1
  fi
  deps_catch2_is_v3 || {
    need_root "installing Catch2 v3" || return 1
    step deps-backports "installing Catch2 v3 from backports" \
      deps_install_backports "${deps_backports[@]}" || return 1
  }
}
