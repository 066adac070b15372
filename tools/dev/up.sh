# ./dev up: a whole system on this machine, proved with a real kernel client.
. tools/dev/build.sh
. tools/dev/system.sh

up_usage() {
  cat <<'END'
usage: ./dev up [--address ADDRESS] [--fresh] [--no-proof]

Installs and builds what is missing (not the tests: ./dev build does that), starts NFS-Ganesha with
libfsalweft.so and four weft-ds, each with a port and a storage folder of its own, in two failure
domains, so that each file has a copy in both. And proves it: a real Linux kernel, in a client
machine, mounts it with vers=4.2, copies a 256 MiB file in and out and compares checksums; then it
writes another one, and in the middle of that a data server is killed. Prints what each data server
wrote and read, how long the client was held up by the loss, and the mount line for a client of your
own. The system stays up until ./dev down; run again, it is only proved again.

  --address ADDRESS  the address of this machine to serve at. By default 10.79.0.1, which is put
                     on the loopback interface: this machine and the virtual machines on it reach
                     it, others don't
  --fresh            begin with empty stores (a running system is stopped first)
  --no-proof         only start

Everything is in WEFT_STATE (/var/lib/weft-dev): configuration, key, stores, logs.
END
}

up_kind=${WEFT_CLIENT_KIND:-uml61}
up_targets=(weft-ds fsalweft weft)

# What runs, and not the tests. The client machine is mostly downloads, so it is made meanwhile;
# who needs it waits for it, and says so if it cannot be made.
up_build() {
  local proof=$1
  if [ "$proof" -eq 1 ]; then
    mkdir -p "$WEFT_LOGS"
    nice bash tools/dev/clients.sh build "$up_kind" >"$WEFT_LOGS/client-machine-ahead.log" 2>&1 \
      </dev/null &
  fi
  build_ganesha && build_preset release "${up_targets[@]}"
}

up_proof() {
  local kind=$up_kind address=$1
  step client-machine "building a client machine (cached from then on)" \
    bash tools/dev/clients.sh build "$kind" || return 1
  if ! system_past_grace; then
    say "waiting for clients of before the restart to reclaim what they had open (at most 35 s)"
    system_wait mds 60 "end its grace period" system_past_grace || return 1
  fi
  local weft=$system_weft before=$WEFT_STATE/before.json after=$WEFT_STATE/after.json
  "$weft" status --output json >"$before" || return 1
  step proof "a real client mounts it, copies 256 MiB in and out, compares checksums" \
    env PYTHONPATH=tests/system PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 -m harness.prove "$address" "$system_export" --mib 256 --kind "$kind" ||
    return 1
  # Data servers tell their counters with heartbeats, once a second.
  sleep 3
  "$weft" status --output json >"$after" || return 1
  /usr/bin/python3 tools/dev/proof_report.py "$before" "$after" "$WEFT_LOGS/proof.log" || return 1
  up_proof_of_loss "$address" "$kind"
}

up_fact() { sed -n "s/^$1 //p" "$WEFT_LOGS/proof-of-loss.log"; }

# A data server is killed while a client writes, and started again: nothing is lost, and the copies
# are equal again.
up_proof_of_loss() {
  local address=$1 kind=$2 lost=2 path=/weft-proof-fault
  step proof-of-loss "a client writes 256 MiB, and ds$lost is killed in the middle of it" \
    env PYTHONPATH=tests/system PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 -m harness.prove "$address" "$system_export" --mib 256 --kind "$kind" \
    --fault "kill -KILL $(system_pid ds$lost)" || return 1
  say "read back without ds$lost: checksums equal ($(up_fact sha256 | cut -c 1-16)...)"
  say "the client was held up for $(up_fact pause_s) s at most"
  system_launch_ds "$lost" || return 1
  system_wait "ds$lost" 60 "make its copies equal again" system_repaired || return 1
  say "ds$lost was started again and has what it missed; $path is left there to look at"
}

up_main() {
  local address="" fresh=0 proof=1 WEFT_SAY_EVERY=${WEFT_SAY_EVERY:-10}
  while [ $# -gt 0 ]; do
    case $1 in
      --address) address=${2:-}; shift; [ -n "$address" ] || { up_usage >&2; return 2; } ;;
      --fresh) fresh=1 ;;
      --no-proof) proof=0 ;;
      *) up_usage >&2; return 2 ;;
    esac
    shift
  done
  need_root "./dev up" || return 1
  deps && up_build "$proof" || return 1
  [ -z "$address" ] || system_can_have_address "$address" || return 1
  if system_is_up; then
    if [ $fresh -eq 1 ] || { [ -n "$address" ] && [ "$address" != "$(system_address)" ]; }; then
      system_stop || return 1
    fi
  fi
  [ $fresh -eq 0 ] || system_forget || return 1
  if system_is_up; then
    say "already up at $(system_address)"
  else
    system_start "${address:-$system_default_address}" || return 1
  fi
  [ $proof -eq 0 ] || up_proof "$(system_address)" || return 1
  system_tell
}
