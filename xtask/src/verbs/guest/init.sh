#!/bb/busybox sh
# The guest's first process: makes two software RoCE devices, runs the jobs, switches off.
#
# What always holds: whatever happens it says so on the first serial port, in lines that begin with
# the mark that the host gave it, and the guest is switched off in the end. The kernel's messages go
# to the second port, so that the two never mix. Programs are in /bin, busybox's applets in /bb.
export PATH=/bin:/bb HOME=/root TERM=dumb RUST_BACKTRACE=1

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec </dev/null >/dev/ttyS0 2>&1
stty raw -echo </dev/ttyS0
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t devpts pts /dev/pts

role=one mark=@ seconds=600
for word in $(cat /proc/cmdline); do
    case $word in
    barn.role=*) role=${word#*=} ;;
    barn.mark=*) mark=${word#*=} ;;
    barn.seconds=*) seconds=${word#*=} ;;
    esac
done

# This shell prefers its own `ip` to any that it finds in PATH.
ip() { /bin/ip "$@"; }
say() { echo "$mark $*"; }
off() {
    # The port sends what it has before the power goes.
    sleep 0.2
    poweroff -f
}
must() {
    "$@" && return
    say broken "$*"
    off
}
(
    sleep "$seconds"
    poweroff -f
) &

# Huge pages first, while memory is in one piece: 32 of 2 MiB.
echo 32 >/proc/sys/vm/nr_hugepages
ulimit -l unlimited
ulimit -n 65536
echo 4096 >/proc/sys/net/core/somaxconn
while read -r module; do must insmod "$module"; done </modules/list

# A NETWORK DEVICE ADDRESS RDMA_DEVICE: an address and a software RoCE device on a network device.
# 9000 bytes let RoCE use its longest packets, 4096 bytes of payload.
device() {
    must ip link set "$1" mtu 9000 up
    must ip address add "$2/24" dev "$1"
    must rdma link add "$3" type rxe netdev "$1"
}
# The place of the IPv4-mapped address in a device's table. It appears a moment after the address.
gid() {
    for try in $(seq 300); do
        for entry in /sys/class/infiniband/"$1"/ports/1/gids/*; do
            case $(cat "$entry" 2>/dev/null) in
            "0000:0000:0000:0000:0000:ffff:$2")
                grep -q ACTIVE /sys/class/infiniband/"$1"/ports/1/state && echo "${entry##*/}" && return
                ;;
            esac
        done
        sleep 0.1
    done
    return 1
}

export A_IP=10.9.0.1 A_DEV=rxe0 A_GID=0 B_IP=10.9.0.2 B_DEV=rxe1 B_GID=0 ROLE=$role
must ip link set lo up
case $role in
one)
    # Both ends are this machine's own addresses: packets that come in from one of them are no mistake.
    for setting in accept_local=1 rp_filter=0 arp_ignore=1 arp_announce=2; do
        for where in all default; do echo "${setting#*=}" >/proc/sys/net/ipv4/conf/$where/"${setting%=*}"; done
    done
    must ip link add v0 type veth peer name v1
    device v0 $A_IP $A_DEV
    device v1 $B_IP $B_DEV
    ;;
a) device eth0 $A_IP $A_DEV ;;
b) device eth0 $B_IP $B_DEV ;;
esac
if [ $role != b ]; then A_GID=$(must gid $A_DEV 0a09:0001); fi
if [ $role != a ]; then B_GID=$(must gid $B_DEV 0a09:0002); fi
case $role in
a) other=$B_IP ;;
b) other=$A_IP ;;
*) other=$A_IP ;;
esac
until ping -c 1 -W 1 $other >/dev/null; do sleep 0.2; done

say up "$(uname -r), $(nproc) processors, $(awk '/HugePages_Total/ {print $2}' /proc/meminfo) huge pages"

now() {
    read -r up idle </proc/uptime
    echo "${up%.*}${up#*.}0"
}
killed() { awk '/^oom_kill / {print $2}' /proc/vmstat; }
# Whether no process of a session lives, whatever its name says.
over() {
    awk -v session="$1" '{ sub(/^.*[)] /, ""); if ($1 != "Z" && $4 == session) lives = 1 } END { exit lives }' \
        /proc/[0-9]*/stat 2>/dev/null
}

while read -r name limit port; do
    say begin "$name"
    began=$(now)
    killed_before=$(killed)
    # A session of its own: what a job leaves behind ends with it.
    setsid sh /job.sh "$name" "$port" &
    job=$!
    setsid sh /watch.sh "$limit" "$name" $job &
    watch=$!
    wait $job
    code=$?
    kill -KILL -$watch $watch -$job 2>/dev/null
    # A node takes a while to die: until then nobody else can listen where it does.
    looks=0
    while [ $looks -lt 100 ] && ! over $job; do
        sleep 0.1
        looks=$((looks + 1))
    done
    late=0
    [ -e "/tmp/late.$name" ] && late=1
    say end "$name" code=$code milliseconds=$(($(now) - began)) late=$late killed=$(($(killed) - killed_before))
done </jobs/list
say done
off
