# about: perftest, each operation with its options that change what the NIC is asked
# link: ethernet infiniband software
# seconds: 600
# shellcheck shell=bash

nic_up || exit 0
for operation in write read send; do
  perftest "$operation-lat" ib_${operation}_lat -n 1000
  perftest "$operation-bw" ib_${operation}_bw -n 500
  perftest "$operation-all-sizes" ib_${operation}_bw -a -n 5
  perftest "$operation-both-ways" ib_${operation}_bw -b -n 300
  perftest "$operation-4-queue-pairs" ib_${operation}_bw -q 4 -n 200
done
for kind in FETCH_AND_ADD CMP_AND_SWAP; do
  perftest "atomic-lat-$kind" ib_atomic_lat -A $kind -n 1000
  perftest "atomic-bw-$kind" ib_atomic_bw -A $kind -n 500
done
for connection in UC UD; do
  perftest "send-lat-$connection" ib_send_lat -c $connection -n 1000
  perftest "send-bw-$connection" ib_send_bw -c $connection -n 500
done
perftest write-lat-UC ib_write_lat -c UC -n 1000
perftest write-bw-UC ib_write_bw -c UC -n 500
perftest send-events ib_send_bw -e -n 300
perftest read-events ib_read_bw -e -n 300
perftest write-inline ib_write_lat -I 64 -s 64 -n 500
perftest send-inline ib_send_lat -I 128 -s 100 -n 500
perftest send-shared-receive ib_send_bw -r 64 --use-srq -n 300
perftest write-moderated ib_write_bw -Q 50 -n 500
perftest write-list ib_write_bw -l 8 -n 400
perftest read-1-outstanding ib_read_bw -o 1 -n 300
