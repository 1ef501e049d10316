#!/bin/sh
# One job in the guest: job.sh NAME PORT. Its commands are in /jobs.
#
# A job with a server: the server runs as A, and once its port listens the client runs as B, whose
# code is the job's. In one guest that is all. In two, A tells B over one gate (a tcp port) that the
# server is there, and B tells A over another how it ended. A job without a server runs everywhere.
name=$1 port=$2
ready_gate=7000 end_gate=7001

serve() {
    sh /jobs/"$name".server >/tmp/"$name".log 2>&1 &
    server=$!
    until netstat -ltn | grep -q ":$port "; do
        if ! kill -0 $server 2>/dev/null; then
            echo "the server ended before it listened on port $port:"
            cat /tmp/"$name".log
            exit 1
        fi
        sleep 0.2
    done
}
close() {
    if [ "$1" != 0 ]; then
        echo "the server said:"
        tail -n 40 /tmp/"$name".log
    fi
    kill $server 2>/dev/null
    exit "$1"
}

if [ ! -e /jobs/"$name".server ]; then
    exec sh /jobs/"$name".client
fi
case $ROLE in
one)
    serve
    sh /jobs/"$name".client
    close $?
    ;;
a)
    serve
    echo "$name" | nc -l -p $ready_gate
    code=$(nc -l -p $end_gate </dev/null)
    close "${code:-1}"
    ;;
b)
    until [ "$(nc $A_IP $ready_gate </dev/null 2>/dev/null)" = "$name" ]; do sleep 0.2; done
    sh /jobs/"$name".client
    code=$?
    until echo $code | nc $A_IP $end_gate 2>/dev/null; do sleep 0.2; done
    exit $code
    ;;
esac
