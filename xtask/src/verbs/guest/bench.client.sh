# The client's end: ours, with perftest's READs in turn, and perftest's rate before and after; all between the same two
# devices. A server that is not there yet is asked again.
READS=1000
rate() {
    echo "section perftest-rate 64"
    until ib_read_bw -d $B_DEV -x $B_GID -s 64 -n 5000 $A_IP >/tmp/figures 2>&1; do sleep 0.3; done
    grep -E '^ *[0-9]+ +[0-9]+ ' /tmp/figures
    echo "section end"
}
READ_LAT="until ib_read_lat -d $B_DEV -x $B_GID -p \$((20000 + BYTES)) -s \$BYTES -n $READS $A_IP >/tmp/read-lat 2>&1; do
    sleep 0.1
done
cat /tmp/read-lat"
rate
echo "section barn fabric"
barn bench fabric --transport verbs --at verbs://$A_IP:7411 --bind $B_IP --quick --json --read-lat "$READ_LAT" \
    2>/tmp/said || { cat /tmp/said; exit 1; }
echo "section barn get"
barn bench get --transport verbs --at verbs://$A_IP:7411 --bind $B_IP --keys 4000 --quick --json \
    --read-lat "$READ_LAT" 2>/tmp/said || { cat /tmp/said; exit 1; }
rate
