# ./dev build: third parties, then our own code.
. tools/dev/deps.sh

build_usage() {
  cat <<'END'
usage: ./dev build [PRESET] [TARGET...]

Installs missing Debian packages, builds the patched NFS-Ganesha unless it is there already, and
builds everything with the CMake preset PRESET: release (default), debug, asan (with the fuzz
targets) or tsan. Results are in build/PRESET/. With TARGETs, only these are built.
END
}

# NFS-Ganesha with our patches, in its private prefix; cached over builds.
build_ganesha() {
  [ -f tools/dev/ganesha.sh ] || return 0
  bash tools/dev/ganesha.sh --check ||
    step ganesha "building NFS-Ganesha with our patches (cached from then on)" \
      bash tools/dev/ganesha.sh
}

# build_preset PRESET [TARGET...]
build_preset() {
  local preset=$1 targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  # A tree of before a change of the presets is brought up to date with them.
  if [ ! -f "build/$preset/build.ninja" ] ||
    [ CMakePresets.json -nt "build/$preset/build.ninja" ]; then
    step "configure-$preset" "configuring $preset" cmake --preset "$preset" || return 1
  fi
  step "build-$preset" "building $preset${*:+: $*}" \
    nice cmake --build --preset "$preset" -j "$WEFT_JOBS" "${targets[@]}"
}

build_main() {
  local preset=${1:-release}
  [ $# -eq 0 ] || shift
  case $preset in
    release | debug | asan | tsan) ;;
    *) build_usage >&2; return 2 ;;
  esac
  deps && build_ganesha && build_preset "$preset" "$@" && say "built: build/$preset"
}
