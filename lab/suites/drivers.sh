# about: doorbell's drivers on virtual NICs in its own process against ibv_rc_pingpong on the kernel's rxe, over UDP
# link: software
# seconds: 1500
# boot: own
# shellcheck shell=bash

. /lab/rxe_peer.sh
rxe_peer_up || exit 0

# both_ways NAME DEVICE MTU SIZE MESSAGES: doorbell as client, and as server.
both_ways() {
  local name="$1" stock own
  stock="ibv_rc_pingpong -c -d rxe0 -g $GID -m $3 -s $4 -n $5"
  own="$PEER doorbell pingpong --device $2 --with ibv_rc_pingpong --fabric udp:10.9.0.2,$3"
  own="$own --mtu $3 --size $4 --iterations $5 --timeout 60"
  pair "$name-to-rxe" 180 "$stock" "$own 10.9.0.1"
  pair "$name-from-rxe" 180 "$own" "$stock 10.9.0.2"
}

for device in netxtreme connectx; do
  both_ways $device virtual-$device 4096 4096 200
  both_ways $device-1-byte virtual-$device 1024 1 200
  # Not many packets a message: that program sends again after 67 ms, which a busy machine takes for many.
  for mtu in 256 512 1024 2048 4096; do
    both_ways $device-mtu-$mtu virtual-$device $mtu $((mtu * 8)) 20
  done
done
