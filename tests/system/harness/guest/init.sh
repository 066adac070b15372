#!/bin/sh
# Brings a client machine up, the same on every kind, then hands over to the agent. Runs as
# process 1 with the root mounted read-only and the share at /run/weft.
export PATH=/run/weft/boot/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PYTHONPATH=/run/weft/boot PYTHONDONTWRITEBYTECODE=1
. /run/weft/boot/settings

mountpoint -q /proc || mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm 2>/dev/null
[ -d /dev/pts ] && mount -t devpts devpts /dev/pts
[ -d /dev/shm ] && mount -t tmpfs tmpfs /dev/shm
for folder in /tmp /var/tmp /mnt /root /var/lib/nfs; do
  mount -t tmpfs -o size=80%,mode=1777 tmpfs "$folder"
done
mkdir -p /var/lib/nfs/rpc_pipefs /run/lock /run/sendsigs.omit.d

if [ -n "$MODULES" ]; then
  mount -t hostfs -o "$MODULES" none /lib/modules
  for module in nfsv4 nfs_layout_nfsv41_files nfs_layout_flexfiles; do
    modprobe "$module" || echo "weft-init: modprobe $module failed"
  done
fi

# The NFS client tells itself apart from others by its host name: equal names would be one client.
echo "$HOST_NAME" > /proc/sys/kernel/hostname

ip link set lo up
ip addr add "$ADDRESS" dev "$DEVICE"
ip link set "$DEVICE" up
[ -n "$GATEWAY" ] && ip route add default via "$GATEWAY"

if [ -n "$SHELL_ON" ]; then
  python3 /run/weft/boot/agent.py $PORT >/dev/null 2>&1 &
  cd /root
  setsid bash -c "exec <'$SHELL_ON' >'$SHELL_ON' 2>&1; $SHELL_FIRST
    export PS1='client\w# '; exec bash --norc -i"
else
  python3 /run/weft/boot/agent.py $PORT
fi
echo "weft-init: leaving"
umount -a -f -l -t nfs,nfs4 2>/dev/null
echo o > /proc/sysrq-trigger
sleep 5
echo b > /proc/sysrq-trigger
