# The client's end: ours, with perftest's READs in turn, between the same two devices. A server that is not there yet is
# asked again.
READS=1000 BW_READS=2000
READ_LAT="until ib_read_lat -d $B_DEV -x $B_GID -p \$((20000 + BYTES)) -s \$BYTES -n $READS $A_IP >/tmp/read-lat 2>&1; do
    sleep 0.1
done
cat /tmp/read-lat"
READ_BW="until ib_read_bw -d $B_DEV -x $B_GID -p \$((30000 + BYTES)) -s \$BYTES -n $BW_READS $A_IP >/tmp/read-bw 2>&1; do
    sleep 0.1
done
cat /tmp/read-bw"
echo "section barn fabric"
barn bench fabric --transport verbs --at verbs://$A_IP:7411 --bind $B_IP --quick --json --read-lat "$READ_LAT" \
    --read-bw "$READ_BW" 2>/tmp/said || { cat /tmp/said; exit 1; }
echo "section barn get"
barn bench get --transport verbs --at verbs://$A_IP:7411 --bind $B_IP --keys 4000 --quick --json \
    --read-lat "$READ_LAT" 2>/tmp/said || { cat /tmp/said; exit 1; }
