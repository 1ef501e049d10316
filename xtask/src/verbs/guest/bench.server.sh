# The node's end of the benchmarks: perftest's servers one after the other, in the order in which the
# client asks for them (each serves one client), a node, and one that serves bare echoes.
SIZES="8 64 1024 504" READS=1000
for round in 1 2; do
    for bytes in $SIZES; do ib_read_lat -d $A_DEV -x $A_GID -s $bytes -n $READS; done
    ib_read_bw -d $A_DEV -x $A_GID -s 64 -n 5000
done >/tmp/perftest.log 2>&1 &
barn bench echo-node $A_IP:7412 &
exec barn serve --tcp $A_IP:7411 --verbs auto --allow-unauthenticated --config none --data none \
    --memory 192MiB --raw-memory 16MiB --log-level warn --socket /tmp/bench.sock
