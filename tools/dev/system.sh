# The system that ./dev up runs on this machine: its files, processes and address. Sourced.
#
# Everything is in WEFT_STATE: address, cluster.key, mds/ (ganesha.conf, log, metadata store),
# ds1..ds4/ (weft-ds.toml, log, store), and a pid file for each process.

system_export=/weft
system_default_address=10.79.0.1
system_data_servers=4
system_control_port=20480
system_nfs_port=2049
system_socket=/run/weft/mds.sock
system_weft=$WEFT_ROOT/build/release/tools/weft/weft
system_ds=$WEFT_ROOT/build/release/dataserver/weft-ds
system_fsal=$WEFT_ROOT/build/release/ganesha-fsal/libfsalweft.so
export WEFT_ADMIN_SOCKET=$system_socket

system_names() {
  local number
  echo mds
  for number in $(seq "$system_data_servers"); do echo "ds$number"; done
}

system_address() { cat "$WEFT_STATE/address" 2>/dev/null; }

# The process id of NAME, if it runs. A pid file of before a reboot may name some other process:
# the command line tells.
system_pid() {
  local pid words
  pid=$(cat "$WEFT_STATE/$1.pid" 2>/dev/null) && [ -n "$pid" ] || return 1
  words=$(cat "/proc/$pid/cmdline" 2>/dev/null | tr '\0' ' ') || return 1
  case $words in
    *"$WEFT_STATE/$1/"*) echo "$pid" ;;
    *) return 1 ;;
  esac
}

# Every process runs.
system_is_up() {
  local name
  for name in $(system_names); do
    system_pid "$name" >/dev/null || return 1
  done
}

# system_launch NAME COMMAND...: in the background, with its output in WEFT_STATE/NAME/log.
system_launch() {
  local name=$1
  shift
  setsid "$@" >>"$WEFT_STATE/$name/log" 2>&1 </dev/null &
  echo $! >"$WEFT_STATE/$name.pid"
  disown
}

system_has_address() { [ -n "$(ip -o addr show to "$1" 2>/dev/null)" ]; }

# The default address can be put on the loopback interface; any other must be there.
system_can_have_address() {
  [ "$1" = "$system_default_address" ] || system_has_address "$1" || {
    fail "$1 is no address of this machine"
    return 1
  }
}

system_take_address() {
  local address=$1
  ! system_has_address "$address" || return 0
  system_can_have_address "$address" || return 1
  ip addr add "$address/32" dev lo && touch "$WEFT_STATE/address-on-lo"
}

system_write_mds() {
  local address=$1 folder=$WEFT_STATE/mds
  mkdir -p "$folder/recovery" "$(dirname "$system_socket")" || return 1
  cat >"$folder/ganesha.conf" <<END
# Written by ./dev up; fsal-weft(8) explains the options.
NFS_CORE_PARAM {
  Protocols = 4;
  Bind_addr = $address;
  NFS_Port = $system_nfs_port;
  Plugins_Dir = "$folder/plugins";
  allow_set_io_flusher_fail = true;
  Enable_UDP = false;
  Enable_NLM = false;
  Enable_RQUOTA = false;
}
NFSv4 {
  PNFS_MDS = true;
  Minor_Versions = 0, 1, 2;
  Lease_Lifetime = 30;
  Grace_Period = 35;
  RecoveryBackend = fs;
  RecoveryRoot = "$folder/recovery";
  Only_Numeric_Owners = true;
}
MDCACHE { Detached_Mult = 64; }
EXPORT {
  Export_Id = 1;
  Path = "/";
  Pseudo = "$system_export";
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  FSAL {
    Name = WEFT;
    Metadata_Path = "$folder/metadata";
    Control_Address = "$address:$system_control_port";
    Key_File = "$WEFT_STATE/cluster.key";
    Admin_Socket = "$system_socket";
    Copies = 2;
    By_Load = false;  # all on one machine
  }
}
END
}

system_write_ds() {
  local number=$1 address=$2 folder=$WEFT_STATE/ds$1
  local domains=(left right)
  mkdir -p "$folder/store" || return 1
  cat >"$folder/weft-ds.toml" <<END
# Written by ./dev up; weft-ds.toml(5) explains the keys.
[server]
name = "ds$number"
failure_domain = "${domains[(number - 1) % 2]}"
listen = ["$address:$((2050 + number))"]

[store]
path = "$folder/store"

[cluster]
mds = ["$address:$system_control_port"]
key_file = "$WEFT_STATE/cluster.key"
END
}

# Waits until CONDITION... holds, at most SECONDS, and only while process NAME lives.
system_wait() {
  local name=$1 seconds=$2 what=$3 until
  shift 3
  until=$((SECONDS + seconds))
  while ! "$@" >/dev/null 2>&1; do
    system_pid "$name" >/dev/null || {
      tail -n 20 "$WEFT_STATE/$name/log" >&2
      fail "$name ended while it was to $what; its log: $WEFT_STATE/$name/log"
      return 1
    }
    [ $SECONDS -lt $until ] || {
      tail -n 20 "$WEFT_STATE/$name/log" >&2
      fail "$name did not $what within $seconds s; its log: $WEFT_STATE/$name/log"
      return 1
    }
    sleep 0.2
  done
}

system_port_taken() { [ -n "$(ss -Hltn "sport = :$1" 2>/dev/null)" ]; }
system_serves_nfs() { [ -n "$(ss -Hltn "sport = :$system_nfs_port" 2>/dev/null)" ]; }
# At least so many data servers are up.
system_registered() {
  "$system_weft" ds list --output json | /usr/bin/python3 -c '
import json, sys
servers = json.load(sys.stdin)
sys.exit(sum(server["state"] == "up" for server in servers) < int(sys.argv[1]))' \
    "$1"
}

# No copy is behind the others.
system_repaired() {
  "$system_weft" status --output json | /usr/bin/python3 -c '
import json, sys
sys.exit(json.load(sys.stdin)["stale_objects"] != 0)'
}

# Files can be opened that no client had open before a restart.
system_past_grace() {
  "$system_weft" status --output json | /usr/bin/python3 -c '
import json, sys
sys.exit(json.load(sys.stdin)["grace_left_ms"] != 0)'
}

system_check() {
  local file port number
  for file in "$system_weft" "$system_ds" "$system_fsal" "$WEFT_GANESHA_PREFIX/bin/ganesha.nfsd"; do
    [ -e "$file" ] || { fail "$file was not built"; return 1; }
  done
  for port in "$system_nfs_port" "$system_control_port" \
    $(for number in $(seq "$system_data_servers"); do echo $((2050 + number)); done); do
    ! system_port_taken "$port" || {
      fail "port $port is in use on this machine: ss -ltnp 'sport = :$port' says by whom"
      return 1
    }
  done
}

system_start() {
  local address=$1 number
  system_halt_processes || return 1  # half a system may be left
  system_check || return 1
  mkdir -p "$WEFT_STATE" && chmod 700 "$WEFT_STATE" || return 1
  system_take_address "$address" || return 1
  echo "$address" >"$WEFT_STATE/address"
  [ -s "$WEFT_STATE/cluster.key" ] || "$system_weft" keygen "$WEFT_STATE/cluster.key" >/dev/null ||
    return 1
  say "starting NFS-Ganesha with libfsalweft.so at $address:$system_nfs_port"
  system_write_mds "$address" || return 1
  mkdir -p "$WEFT_STATE/mds/plugins" &&
    ln -sf "$WEFT_GANESHA_PREFIX"/lib/ganesha/*.so "$system_fsal" "$WEFT_STATE/mds/plugins/" ||
    return 1
  system_launch mds "$WEFT_GANESHA_PREFIX/bin/ganesha.nfsd" -F -L /dev/stderr -N NIV_EVENT \
    -f "$WEFT_STATE/mds/ganesha.conf" -p "$WEFT_STATE/mds/ganesha.pid"
  system_wait mds 60 "listen for NFS" system_serves_nfs || return 1
  for number in $(seq "$system_data_servers"); do
    say "starting weft-ds ds$number at $address:$((2050 + number))"
    system_write_ds "$number" "$address" || return 1
    # One after the other, so that their ids are in order.
    system_launch_ds "$number" "$number" || return 1
  done
}

# system_launch_ds NUMBER [SERVERS]: starts a data server; so many are up then (all).
system_launch_ds() {
  system_launch "ds$1" "$system_ds" --config "$WEFT_STATE/ds$1/weft-ds.toml"
  system_wait "ds$1" 30 "register with the metadata server" \
    system_registered "${2:-$system_data_servers}"
}

# SIGTERM to each process, SIGKILL to what does not end by it.
system_halt_processes() {
  local name pid until names
  mapfile -t names < <(system_names | tac)
  for name in "${names[@]}"; do
    pid=$(system_pid "$name") && kill "$pid" 2>/dev/null
  done
  until=$((SECONDS + 20))
  for name in "${names[@]}"; do
    while pid=$(system_pid "$name"); do
      if [ $SECONDS -ge $until ]; then
        say "$name does not end by itself: killed"
        kill -KILL "$pid" 2>/dev/null
      fi
      sleep 0.1
    done
    rm -f "$WEFT_STATE/$name.pid"
  done
}

system_stop() {
  local name running=0
  for name in $(system_names); do
    ! system_pid "$name" >/dev/null || running=$((running + 1))
  done
  system_halt_processes || return 1
  if [ -e "$WEFT_STATE/address-on-lo" ]; then
    ip addr del "$system_default_address/32" dev lo 2>/dev/null
    rm -f "$WEFT_STATE/address-on-lo"
  fi
  if [ $running -eq 0 ]; then say "nothing was up"; else say "stopped $running processes"; fi
}

system_forget() {
  # Only a folder that we made is removed.
  [ -e "$WEFT_STATE/cluster.key" ] || return 0
  rm -rf "${WEFT_STATE:?}"
  say "removed $WEFT_STATE"
}

system_tell() {
  local address
  address=$(system_address)
  cat <<END

The system is up, until ./dev down. On a client of your own (as root):

    mount -t nfs -o vers=4.2,port=$system_nfs_port $address:$system_export /mnt

    ./dev client                        a shell in a client machine that has it mounted
    ${system_weft#"$WEFT_ROOT"/} status     how it is; also: ds list, layout show FILE
    $WEFT_STATE               configuration, stores, logs
END
  [ ! -e "$WEFT_STATE/address-on-lo" ] ||
    echo "    $address is on this machine's loopback; ./dev up --address ADDRESS serves others"
}
