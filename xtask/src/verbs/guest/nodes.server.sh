# Two nodes of one cluster, processes of their own, on the first device. A third port says that both are
# members: the second listens before it is one.
node() {
    barn serve --verbs auto --allow-unauthenticated --config none --data none --memory 192MiB \
        --log-level warn "$@"
}
node --tcp $A_IP:7411 --socket /tmp/first.sock &
until netstat -ltn | grep -q ":7411 "; do sleep 0.2; done
# What an earlier job's node has said is not this one's.
rm -f /tmp/second.log
node --tcp $A_IP:7412 --socket /tmp/second.sock --join tcp://$A_IP:7411 >/tmp/second.log 2>&1 &
until grep -qs "member 2 of 2" /tmp/second.log; do sleep 0.2; done
while true; do nc -l -p 7413 </dev/null; done
