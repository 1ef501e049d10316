# Two nodes of one cluster, processes of their own, on the first device. A third port says that both are
# members. A node listens before it is one: the second is started once the first serves, for otherwise it
# may be the one that joins first.
node() {
    barn serve --verbs auto --allow-unauthenticated --config none --data none --memory 192MiB \
        --log-level warn "$@"
}
# What an earlier job's nodes have said is not these ones'.
rm -f /tmp/first.said /tmp/second.said
node --tcp $A_IP:7411 --socket /tmp/first.sock >/tmp/first.said 2>&1 &
until grep -qs "member 1 of 1" /tmp/first.said; do sleep 0.2; done
node --tcp $A_IP:7412 --socket /tmp/second.sock --join tcp://$A_IP:7411 >/tmp/second.said 2>&1 &
until grep -qs "member 2 of 2" /tmp/second.said; do sleep 0.2; done
while true; do nc -l -p 7413 </dev/null; done
