# Watched clients of each kind of table, two of them killed in the midst of it; so many operations that every
# kind has grown or moved its keys, which the checker demands.
OPERATIONS=8192
for kind in hopscotch cuckoo cache tree; do
    linear_histories --address verbs://$A_IP:7411 --bind $B_IP --nodes 2 --kind $kind --operations $OPERATIONS \
        --each $OPERATIONS --kills 2 --threads 1 --workers 4 --long-one-in 0 || exit 1
done
