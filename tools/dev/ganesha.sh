#!/bin/bash
# Builds NFS-Ganesha 6.5 with our patch series and installs it into a private prefix.
#
#   tools/dev/ganesha.sh                  build and install unless the prefix is up to date
#   tools/dev/ganesha.sh --print-packages the Debian packages the build needs
#   tools/dev/ganesha.sh --stamp          the hash of everything that goes into the build
#   tools/dev/ganesha.sh --check          exit 0 if the prefix is up to date, build nothing
#   tools/dev/ganesha.sh --fetch          only download and check the tarballs
#
# It can also be sourced, for its weft_ganesha_* functions. Variables, all optional:
#   WEFT_CACHE              downloads and build trees (/var/cache/weft)
#   WEFT_GANESHA_PREFIX     where to install (/opt/weft-ganesha)
#   WEFT_GANESHA_WORK       sources and build tree ($WEFT_CACHE/ganesha-src)
#   WEFT_GANESHA_PATCHES    the patch folder, "none" for a pristine build (cmake/ganesha-patches)
#   WEFT_GANESHA_JOBS       parallel jobs (all processors)
#   WEFT_GANESHA_SANITIZE   value for -fsanitize=, empty for none
#   WEFT_GANESHA_STATE      where it keeps state unless it is configured ($WEFT_GANESHA_PREFIX/var)
#   WEFT_GANESHA_OFFLINE    1: download nothing, fail if a tarball is missing
#   DESTDIR                 install below this folder what is to run in the prefix, for packages
#
# The upstream tarballs come from the Debian mirror this machine's apt already uses; nothing of
# the machine's own apt state is changed. docs/ganesha.md says why this version and which patches.

# The package list is for Debian 12.
weft_ganesha_packages=(
  gcc g++ cmake ninja-build bison flex pkg-config patch ccache
  liburcu-dev libkrb5-dev libnsl-dev uuid-dev libblkid-dev libcap-dev libacl1-dev libnfsidmap-dev
  debian-archive-keyring)

weft_ganesha_suite=trixie
weft_ganesha_tarballs=(  # source package, file, sha256
  "nfs-ganesha nfs-ganesha_6.5.orig.tar.gz \
    ece6cf138dd8602f33294eee75233051229867ea7fd1b3f7d6545e989303bfd9"
  "ntirpc ntirpc_6.3.orig.tar.gz \
    4caf7de4a6bd2de85b3f538a7f137852dcdcdea0b841e44fb3f73293cd7bf5b4")

# Changing any of these changes structures the FSAL shares with the server, so the FSAL must be
# compiled against the config.h that this build generates and installs.
weft_ganesha_options=(
  -DCMAKE_BUILD_TYPE=RelWithDebInfo
  -DUSE_SYSTEM_NTIRPC=OFF -D_MSPAC_SUPPORT=OFF -DUSE_NFS_RDMA=OFF -DUSE_9P=OFF
  -DUSE_DBUS=OFF -DRPCBIND=OFF -DUSE_MONITORING=OFF
  -DUSE_NFSACL3=OFF -DUSE_ACL_MAPPING=ON  # the latter links libacl, which is needed anyway
  -DUSE_FSAL_VFS=ON -DUSE_FSAL_MEM=ON -DUSE_FSAL_NULL=ON
  -DUSE_FSAL_PROXY_V4=OFF -DUSE_FSAL_PROXY_V3=OFF -DUSE_FSAL_LUSTRE=OFF
  -DUSE_FSAL_LIZARDFS=OFF -DUSE_FSAL_KVSFS=OFF -DUSE_FSAL_CEPH=OFF -DUSE_FSAL_GPFS=OFF
  -DUSE_FSAL_XFS=OFF -DUSE_FSAL_GLUSTER=OFF -DUSE_FSAL_RGW=OFF -DUSE_FSAL_SAUNAFS=OFF
  -DUSE_RADOS_RECOV=OFF -DRADOS_URLS=OFF -DUSE_GUI_ADMIN_TOOLS=OFF -DUSE_ADMIN_TOOLS=OFF
  -DUSE_MAN_PAGE=OFF -DUSE_UNWIND=OFF -DUSE_LTTNG=OFF)

weft_ganesha_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

weft_ganesha_say() { echo "ganesha: $*"; }
weft_ganesha_fail() { echo "ganesha: $*" >&2; return 1; }

weft_ganesha_init() {
  cache=${WEFT_CACHE:-/var/cache/weft}
  prefix=${WEFT_GANESHA_PREFIX:-/opt/weft-ganesha}
  work=${WEFT_GANESHA_WORK:-$cache/ganesha-src}
  patches=${WEFT_GANESHA_PATCHES:-$weft_ganesha_root/cmake/ganesha-patches}
  sanitize=${WEFT_GANESHA_SANITIZE:-}
  state=${WEFT_GANESHA_STATE:-$prefix/var}
  staged=${DESTDIR:-}$prefix
  downloads=$cache/downloads
}

weft_ganesha_patch_files() {
  [ "$patches" = none ] || find "$patches" -maxdepth 1 -name '[0-9]*.patch' | LC_ALL=C sort
}

weft_ganesha_stamp() {
  {
    echo "format 2 prefix $prefix sanitize $sanitize"
    [ "$state" = "$prefix/var" ] || echo "state $state"
    printf '%s\n' "${weft_ganesha_tarballs[@]}" "${weft_ganesha_options[@]}"
    gcc -dumpfullversion
    # A patch's header is for its readers and builds nothing.
    weft_ganesha_patch_files | while read -r file; do sed -n '/^--- a\//,$p' "$file"; done
  } | sha256sum | cut -d' ' -f1
}

weft_ganesha_up_to_date() {
  [ -x "$staged/bin/ganesha.nfsd" ] &&
    [ "$(cat "$staged/.weft-stamp" 2>/dev/null)" = "$(weft_ganesha_stamp)" ]
}

weft_ganesha_good_file() {  # path sha256
  [ -f "$1" ] && echo "$2  $1" | sha256sum --check --status
}

# The URI of the Debian mirror in the machine's own apt configuration.
weft_ganesha_mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
    'Label: Debian' 2>/dev/null | sort -u | head -n 1
}

# Downloads what is missing with an apt configuration of its own, which shares only the machine's
# proxy settings and archive keyring.
weft_ganesha_download() {
  local mirror apt_dir log
  mirror=$(weft_ganesha_mirror)
  [ -n "$mirror" ] || {
    weft_ganesha_fail "no Debian mirror in this machine's apt configuration: run apt-get update" \
      "first, or put the tarballs into $downloads by hand"; return 1; }
  apt_dir=$(mktemp -d "${TMPDIR:-/tmp}/weft-ganesha-apt.XXXXXX")
  log=$apt_dir/log
  mkdir -p "$apt_dir"/{lists/partial,cache/archives/partial,out}
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "$mirror $weft_ganesha_suite main" >"$apt_dir/sources.list"
  local apt=(apt-get -q -o "Dir::Etc::sourcelist=$apt_dir/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$apt_dir/lists" -o "Dir::Cache=$apt_dir/cache"
    -o APT::Sandbox::User=root -o Acquire::Retries=3 -o APT::Update::Error-Mode=any)
  # Debian's own packaging (.dsc and debian.tar) is not needed and not always on the mirror.
  if ! "${apt[@]}" update >"$log" 2>&1 ||
    ! (cd "$apt_dir/out" && "${apt[@]}" source --download-only --tar-only "$@" >>"$log" 2>&1); then
    tail -n 20 "$log" >&2
    rm -rf "$apt_dir"
    weft_ganesha_fail "cannot download the sources of $* ($weft_ganesha_suite) from $mirror"
    return 1
  fi
  find "$apt_dir/out" -type f -exec mv -t "$downloads" {} +
  rm -rf "$apt_dir"
}

weft_ganesha_fetch() {
  local entry package file sum missing=()
  mkdir -p "$downloads" || return 1
  for entry in "${weft_ganesha_tarballs[@]}"; do
    read -r package file sum <<<"$entry"
    weft_ganesha_good_file "$downloads/$file" "$sum" || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ] && [ "${WEFT_GANESHA_OFFLINE:-0}" = 1 ]; then
    weft_ganesha_fail "the sources of ${missing[*]} are not in $downloads, and nothing is to be" \
      "downloaded now: run tools/dev/ganesha.sh --fetch before, with the same WEFT_CACHE"
    return 1
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    weft_ganesha_say "downloading sources: ${missing[*]}"
    weft_ganesha_download "${missing[@]}" || return 1
  fi
  for entry in "${weft_ganesha_tarballs[@]}"; do
    read -r package file sum <<<"$entry"
    [ -f "$downloads/$file" ] || {
      weft_ganesha_fail "the mirror's $package in $weft_ganesha_suite has no $file any more"
      return 1; }
    weft_ganesha_good_file "$downloads/$file" "$sum" || {
      weft_ganesha_fail "$downloads/$file has the wrong sha256" \
        "($(sha256sum <"$downloads/$file" | cut -d' ' -f1)," \
        "expected $sum); it is not used, remove it to download it again"
      return 1; }
  done
}

weft_ganesha_unpack() {
  local file
  rm -rf "$work/src" || return 1
  mkdir -p "$work/src" || return 1
  tar -xf "$downloads/nfs-ganesha_6.5.orig.tar.gz" -C "$work/src" --strip-components=1 &&
    mkdir -p "$work/src/src/libntirpc" &&
    tar -xf "$downloads/ntirpc_6.3.orig.tar.gz" -C "$work/src/src/libntirpc" \
      --strip-components=1 || return 1
  weft_ganesha_patch_files | while read -r file; do
    patch --quiet -d "$work/src" -p1 --fuzz=0 --no-backup-if-mismatch <"$file" ||
      weft_ganesha_fail "${file##*/} does not apply" || return 1
  done
}

weft_ganesha_compile() {
  local flags=() launcher=()
  # config.h must know of AddressSanitizer: FSALs are then loaded in a way it can stand.
  [ -z "$sanitize" ] ||
    flags=("-DCMAKE_C_FLAGS=-fsanitize=$sanitize -fno-omit-frame-pointer"
      "-DCMAKE_SHARED_LINKER_FLAGS=-fsanitize=$sanitize"
      "-DCMAKE_EXE_LINKER_FLAGS=-fsanitize=$sanitize"
      "-DSANITIZE_ADDRESS=$([[ $sanitize == *address* ]] && echo ON || echo OFF)")
  ! command -v ccache >/dev/null || launcher=(-DCMAKE_{C,CXX}_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
  rm -rf "$work/build"
  cmake -S "$work/src/src" -B "$work/build" -G Ninja -Wno-dev \
    -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ "${launcher[@]}" "${flags[@]}" \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_INSTALL_PREFIX="$prefix" \
    -DLIB_INSTALL_DIR="$prefix/lib" -DFSAL_DESTINATION="$prefix/lib/ganesha" \
    -DSYSCONFDIR="$prefix/etc" -DSYSSTATEDIR="$state" \
    -DRUNTIMEDIR="$state/run/ganesha" -DCMAKE_INSTALL_RPATH="$prefix/lib" \
    "${weft_ganesha_options[@]}" >"$work/configure.log" 2>&1 ||
    { tail -n 30 "$work/configure.log" >&2; weft_ganesha_fail "configuring failed"; return 1; }
  nice cmake --build "$work/build" -j "${WEFT_GANESHA_JOBS:-$(nproc)}" >"$work/build.log" 2>&1 ||
    { tail -n 40 "$work/build.log" >&2; weft_ganesha_fail "the build failed"; return 1; }
}

# What an FSAL needs is not installed by Ganesha itself: its internal headers and the generated
# config.h. ntirpc installs its own headers, in include/ntirpc.
weft_ganesha_install() {
  rm -rf "${staged:?}/lib" "$staged/include"
  cmake --install "$work/build" >"$work/install.log" 2>&1 ||
    { tail -n 20 "$work/install.log" >&2; weft_ganesha_fail "installing failed"; return 1; }
  mkdir -p "${DESTDIR:-}$state/run/ganesha" &&
    cp -r "$work/src/src/include" "$staged/include/ganesha" &&
    cp "$work/src/src/monitoring/include/"*.h "$staged/include/ganesha/" &&
    cp "$work/build/include/config.h" "$staged/include/ganesha/config.h"
}

weft_ganesha_build() {
  if weft_ganesha_up_to_date; then
    weft_ganesha_say "up to date in $staged"
    return 0
  fi
  weft_ganesha_fetch || return 1
  mkdir -p "$work" || return 1
  weft_ganesha_say "building 6.5 with $(weft_ganesha_patch_files | wc -l) patches," \
    "a minute or two; logs in $work"
  rm -f "$staged/.weft-stamp"
  weft_ganesha_unpack && weft_ganesha_compile && weft_ganesha_install || return 1
  weft_ganesha_stamp >"$staged/.weft-stamp"
  weft_ganesha_say "installed in $staged"
}

weft_ganesha_main() {
  local cache prefix staged state work patches sanitize downloads
  weft_ganesha_init
  case "${1:-}" in
    --print-packages) echo "${weft_ganesha_packages[@]}" ;;
    --stamp) weft_ganesha_stamp ;;
    --check) weft_ganesha_up_to_date ;;
    --fetch) weft_ganesha_fetch ;;
    "")
      mkdir -p "$work" || return 1
      (flock 9 && weft_ganesha_build) 9>"$work/lock" ;;
    *) weft_ganesha_fail "unknown option $1"; return 2 ;;
  esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -uo pipefail
  weft_ganesha_main "$@"
fi
