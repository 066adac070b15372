#!/bin/busybox sh
# Process 1 of a QEMU client until its root disk is mounted. The second part of the initramfs,
# added for each run, is /weft-boot.
export PATH=/bin
busybox mkdir -p /proc /sys /dev /disk
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
while read -r module; do
  busybox insmod "$module" || echo "weft-init: insmod $module failed"
done < /etc/modules-in-order
for try in 1 2 3 4 5 6 7 8 9 10; do
  [ -b /dev/vda ] && break
  busybox sleep 0.1
done
busybox mount -t ext4 -o ro,noload /dev/vda /disk || echo "weft-init: no root disk"
busybox mount -t tmpfs -o mode=755 tmpfs /disk/run
busybox mkdir -p /disk/run/weft/to_guest /disk/run/weft/from_guest
busybox cp -r /weft-boot /disk/run/weft/boot
busybox umount /proc
exec busybox switch_root /disk /bin/sh /run/weft/boot/init.sh
