#!/bin/sh
# Process 1 of a User-mode Linux client, part of its root image. The root is a folder of the host,
# shared by all clients and read-only; what differs between clients comes from the share, a folder
# of the run, named on the kernel command line.
mount -t proc proc /proc
for word in $(cat /proc/cmdline); do
  case $word in weft.share=*) share=${word#weft.share=} ;; esac
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/weft
mount -t hostfs -o "$share" none /run/weft || echo "weft-init: cannot mount the share $share"
exec /bin/sh /run/weft/boot/init.sh
