# The first process of the new root: what the tests need mounted, then the command, then power off.
B=/run/sonde-vm/busybox
R=/run/sonde-vm
$B mount -t tracefs tracefs /sys/kernel/tracing
$B mount -t debugfs debugfs /sys/kernel/debug
$B mount -t bpf bpf /sys/fs/bpf
$B mount -t cgroup2 cgroup2 /sys/fs/cgroup
$B mount -t securityfs securityfs /sys/kernel/security
$B hostname sonde-vm
$B ip link set lo up
modprobe -q tun
[ -e /etc/ld.so.cache ] || ldconfig
[ -e /etc/hostname ] || echo sonde-vm >/etc/hostname
ulimit -n 65536
. $R/vars
i=0
while P=$(echo /dev/vport*p4); [ ! -e "$P" ]; do
  i=$((i+1)); [ $i -gt 1200 ] && { echo "sonde-vm: no virtio ports"; $B poweroff -f; }
  $B sleep 0.05
done
P=${P%4}
# The host asks for this when virtiofsd holds too many files (one per cached inode).
while read -r _; do echo 2 >/proc/sys/vm/drop_caches; done <${P}4 &
$B mkfifo $R/out $R/err
$B cat $R/out >${P}1 & c1=$!
$B cat $R/err >${P}2 & c2=$!
exec 9>${P}3
read up _ </proc/uptime
echo "start $up" >&9
$B setsid /bin/sh $R/cmd </dev/null >$R/out 2>$R/err 9>&-
rc=$?
# A process the command left behind may hold the pipes open: wait a little only.
( $B sleep 2; kill $c1 $c2 ) 9>&- 2>/dev/null & k=$!
wait $c1 $c2 2>/dev/null
read up _ </proc/uptime
echo "exit $rc $up" >&9
exec 9>&-
$B poweroff -f
