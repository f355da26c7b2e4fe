#!/bin/busybox sh
# From the initramfs: load the drivers that the root needs, lay a tmpfs over it, hand over to guest-init.sh.
B=/bin/busybox
$B mkdir -p /dev /host /up /new
$B mount -t devtmpfs dev /dev
while read -r m; do [ -n "$m" ] && $B insmod /mods/$m; done </mods/order
. /sonde-vm/vars
$B mount -t $SHARE -o $SHARE_OPTIONS rootfs /host || exit 1
$B mount -t tmpfs -o mode=755 tmpfs /up
cover() {  # DIRECTORY OF THE HOST, WHERE: what is written there is in memory
  n=$((n+1))
  $B mkdir -p /up/$n.u /up/$n.w "$2"
  $B mount -t overlay -o lowerdir="/host$1",upperdir=/up/$n.u,workdir=/up/$n.w overlay "$2"
}
cover "$ROOT" /new || exit 1
while IFS= read -r d; do cover "$d" "/new$d"; done </sonde-vm/shared
$B mount -t proc proc /new/proc
$B mount -t sysfs sysfs /new/sys
$B mount --move /dev /new/dev
$B mkdir -p /new/dev/shm /new/dev/pts
$B mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
$B mount -t devpts -o mode=620,ptmxmode=666 devpts /new/dev/pts
$B ln -sf /proc/self/fd /new/dev/fd
$B ln -sf /proc/self/fd/0 /new/dev/stdin
$B ln -sf /proc/self/fd/1 /new/dev/stdout
$B ln -sf /proc/self/fd/2 /new/dev/stderr
$B mount -t tmpfs -o mode=755 tmpfs /new/run
$B mkdir -p /new/run/lock /new/run/sonde-vm
$B cp -a /sonde-vm/. /new/run/sonde-vm/
$B cp /bin/busybox /new/run/sonde-vm/busybox
$B mkdir -p /new/usr/lib/modules
[ -d /new/lib/modules ] || $B mkdir -p /new/lib/modules
$B rm -rf /new/lib/modules/$KVER
$B ln -s "$MODDIR" /new/lib/modules/$KVER
while IFS= read -r d; do
  [ -n "$d" ] && $B mkdir -p "/new$d" && $B mount --bind "/host$d" "/new$d"
done </sonde-vm/rw
exec $B switch_root /new /run/sonde-vm/busybox sh /run/sonde-vm/guest-init
