# The node's end of the benchmarks: perftest's servers, a node, and one that serves bare echoes. Each of perftest's
# serves one client and is started again, each size at a port of its own.
SIZES="8 64 1024 504" READS=1000 BW_READS=2000
for bytes in $SIZES; do
    while :; do
        ib_read_lat -d $A_DEV -x $A_GID -p $((20000 + bytes)) -s $bytes -n $READS || sleep 0.2
    done >/dev/null 2>&1 &
done
while :; do
    ib_read_bw -d $A_DEV -x $A_GID -p $((30000 + 64)) -s 64 -n $BW_READS || sleep 0.2
done >/dev/null 2>&1 &
barn bench echo-node $A_IP:7412 &
exec barn serve --tcp $A_IP:7411 --verbs auto --allow-unauthenticated --config none --data none \
    --memory 192MiB --raw-memory 16MiB --log-level warn --socket /tmp/bench.sock
