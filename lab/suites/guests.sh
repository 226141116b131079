# about: two guests, each with a virtual ConnectX, joined by a cable: libmlx5 and doorbell, each with each
# link: ethernet
# peer: ethernet
# seconds: 2400
# boot: own
# shellcheck shell=bash

. /lab/other_guest.sh
nic_up && other_guest_up || exit 0
check ping-4000-bytes 60 ping -c 3 -s 4000 10.9.0.2
pair tcp 240 "python3 /lab/tcp.py listen 10.9.0.1" "$PEER python3 /lab/tcp.py connect 10.9.0.1"
programs_across
for program in uc ud srq; do
  both_ways "$program-pingpong" ibv_${program}_pingpong -c -n 100
done
pair rping 240 "rping -s -V -a 10.9.0.1 -C 10 -S 30000" "$PEER rping -c -V -a 10.9.0.1 -C 10 -S 30000"
doorbell_across
doorbell="doorbell pingpong --device"
pair doorbell-with-doorbell 240 "$doorbell $NIC --listen --timeout 60" \
  "$PEER timeout 240 $doorbell $OTHER --connect 10.9.0.1 --op all --sizes 1,255,4K,100K --iterations 5 --timeout 60"
