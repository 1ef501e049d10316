# The client's end: perftest, ours, perftest again, all between the same two devices.
# A server that is not there yet is asked again.
SIZES="8 64 1024 504" READS=1000
figures() {
    echo "section perftest-$1"
    shift
    until "$@" >/tmp/figures 2>&1; do sleep 0.3; done
    grep -E '^ *[0-9]+ +[0-9]+ ' /tmp/figures
}
perftest() {
    for bytes in $SIZES; do
        figures "latency $bytes" ib_read_lat -d $B_DEV -x $B_GID -s $bytes -n $READS $A_IP
    done
    figures "rate 64" ib_read_bw -d $B_DEV -x $B_GID -s 64 -n 5000 $A_IP
    echo "section end"
}
perftest
echo "section barn fabric"
barn bench fabric --transport verbs --at verbs://$A_IP:7411 --bind $B_IP --quick --json 2>/tmp/said || { cat /tmp/said; exit 1; }
echo "section barn get"
barn bench get --transport verbs --at verbs://$A_IP:7411 --bind $B_IP --keys 4000 --quick --json 2>/tmp/said || { cat /tmp/said; exit 1; }
perftest
