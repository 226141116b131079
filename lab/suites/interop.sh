# about: stock programs on the virtual ConnectX against stock programs on the kernel's rxe, over UDP
# link: software
# seconds: 1500
# boot: own
# shellcheck shell=bash

. /lab/rxe_peer.sh
rxe_peer_up || exit 0

# What the virtual NIC's packets fit; rxe's follow from it.
virtual() {
  echo "$PEER doorbell shim --fabric udp:10.9.0.2,$1 --"
}

# both_ways NAME MTU PROGRAM OPTION...: the program as client on the virtual NIC, and as server.
# The option for the identifier is -g of rdma-core's programs and -x of perftest's.
both_ways() {
  local name="$1" mtu="$2" program="$3" identifier=-x
  shift 3
  case $program in ibv_*) identifier=-g ;; esac
  pair "$name-to-rxe" 180 "$program $* -d rxe0 $identifier $GID" \
    "$(virtual "$mtu") $program $* -d mlx5_0 $identifier 3 10.9.0.1"
  pair "$name-from-rxe" 180 "$(virtual "$mtu") $program $* -d mlx5_0 $identifier 3" \
    "$program $* -d rxe0 $identifier $GID 10.9.0.2"
}

both_ways pingpong 4096 ibv_rc_pingpong -c -n 200
both_ways pingpong-events 4096 ibv_rc_pingpong -c -e -n 100
both_ways pingpong-1-byte 1024 ibv_rc_pingpong -c -s 1 -n 200
for mtu in 256 512 1024 2048 4096; do
  both_ways "mtu-$mtu" $mtu ibv_rc_pingpong -c -m $mtu -s 65536 -n 20
done
# A slow machine needs more time than these programs give: -u 20 is 4 s.
for program in write send; do
  both_ways "$program-lat" 4096 ib_${program}_lat -F -u 20 -n 100
  both_ways "$program-bw" 4096 ib_${program}_bw -F -u 20 -n 50
done
# perftest asks for as many reads at once as its own device can: rxe more than a ConnectX.
for program in read atomic; do
  both_ways "$program-lat" 4096 ib_${program}_lat -F -u 20 -n 100 -o 8
  both_ways "$program-bw" 4096 ib_${program}_bw -F -u 20 -n 50 -o 8
done
both_ways compare-swap 4096 ib_atomic_bw -F -u 20 -n 50 -o 8 -A CMP_AND_SWAP
for program in write send read; do
  both_ways "$program-1-MiB" 1024 ib_${program}_bw -F -u 20 -n 5 -s 1048576 $([ $program != read ] || echo -o 8)
done
both_ways send-events 4096 ib_send_lat -F -u 20 -n 50 -e
both_ways write-8-queue-pairs 4096 ib_write_bw -F -u 20 -n 20 -q 8 -s 8192
