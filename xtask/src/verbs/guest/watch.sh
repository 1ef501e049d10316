#!/bin/sh
# Ends a job whose time is up: watch.sh SECONDS NAME GROUP. Says first what runs and what it waits for.
sleep "$1"
: >/tmp/late."$2"
echo "its time is up; threads that have run, what they wait for, and their time (user, system):"
for task in /proc/[0-9]*/task/*; do
    read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user system _ <"$task"/stat 2>/dev/null || continue
    [ "${user:-0}" -gt 20 ] && echo "${task#/proc/} $(cat "$task"/comm) $(cat "$task"/wchan) $user $system"
done
tail -n 5 /tmp/"$2".log /tmp/*.said 2>/dev/null
kill -TERM -"$3"
sleep 3
kill -KILL -"$3"
