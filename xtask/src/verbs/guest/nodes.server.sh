# Two nodes of one cluster, processes of their own, on the first device.
node() {
    barn serve --verbs auto --allow-unauthenticated --config none --data none --memory 192MiB \
        --log-level warn "$@"
}
node --tcp $A_IP:7411 --socket /tmp/first.sock &
until netstat -ltn | grep -q ":7411 "; do sleep 0.2; done
node --tcp $A_IP:7412 --socket /tmp/second.sock --join tcp://$A_IP:7411
