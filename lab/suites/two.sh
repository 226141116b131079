# about: two NICs on one network: frames, TCP and RDMA from one to the other
# link: ethernet infiniband
# seconds: 400
# boot: own
# nics: 2
# shellcheck shell=bash

nic_up || exit 0
wait_for 20 test -e /sys/class/infiniband/mlx5_1 || {
  fail second-nic "no RDMA device mlx5_1"
  exit 0
}

if [ "$LINK" = infiniband ]; then
  # Local identifiers lead from one to the other; the programs' own exchange goes over the loopback interface.
  check second-active 20 wait_for 15 grep -q ACTIVE /sys/class/infiniband/mlx5_1/ports/1/state
  for program in rc uc ud srq; do
    pair "$program-pingpong" 60 "ibv_${program}_pingpong -c -d mlx5_0" "ibv_${program}_pingpong -c -d mlx5_1 127.0.0.1"
  done
  for program in write_bw read_bw send_bw send_lat; do
    pair "$program" 60 "ib_$program -F -n 300 -d mlx5_0" "ib_$program -F -n 300 -d mlx5_1 127.0.0.1"
  done
  exit 0
fi

# The second interface has a network of its own, so that nothing takes a short cut.
# shellcheck disable=SC2012 # an interface's name
second=$(ls /sys/class/infiniband/mlx5_1/device/net)
ip netns add peer
ip link set "$second" netns peer
ip -n peer address add 10.9.0.2/24 dev "$second"
ip -n peer link set "$second" up
ip -n peer link set lo up
peer="ip netns exec peer"
# shellcheck disable=SC2086 # a command and its arguments
check carrier 20 wait_for 15 $peer ping -c 1 -W 1 10.9.0.1

check ping 30 ping -c 10 -i 0.2 10.9.0.2
check ping-back 30 ip netns exec peer ping -c 10 -i 0.2 10.9.0.1
check ping-1400-bytes 30 ping -c 5 -i 0.2 -s 1400 10.9.0.2
check ping-fragments 30 ping -c 5 -i 0.2 -s 20000 10.9.0.2
address=$(ip -n peer -6 address show dev "$second" scope link | sed -n 's,.*inet6 \(.*\)/.*,\1,p')
check ping-ipv6 30 ping -6 -c 5 -i 0.2 "$address%$NETDEV"

# TCP, both ways: what goes in comes out. busybox's nc hangs up when its input ends, and the other end
# then stops sending: the server's input stays open.
mkfifo /tmp/open
exec 9<>/tmp/open
head -c 20000000 /dev/urandom >/tmp/sent
for way in there back; do
  if [ $way = there ]; then
    server="$peer nc -l -p 5000" client="nc 10.9.0.2 5000"
  else
    server="nc -l -p 5000" client="$peer nc 10.9.0.1 5000"
  fi
  # shellcheck disable=SC2086 # a command and its arguments
  timeout 60 $server >/tmp/received <&9 &
  wait_for 5 sh -c "grep -q ':1388 .* 0A ' /proc/net/tcp || $peer grep -q ':1388 .* 0A ' /proc/net/tcp"
  # shellcheck disable=SC2086 # a command and its arguments
  timeout 60 $client </tmp/sent >/dev/null
  wait $!
  check "tcp-$way" 10 cmp /tmp/sent /tmp/received
done
check mtu-9000 10 sh -c "ip link set $NETDEV mtu 9000 && ip -n peer link set $second mtu 9000"
wait_for 10 grep -q 1 "/sys/class/net/$NETDEV/carrier"
check ping-9000-bytes 30 ping -c 5 -i 0.5 -s 8900 10.9.0.2
check received-without-errors 5 sh -c "grep -qx 0 /sys/class/net/$NETDEV/statistics/rx_errors && grep -qx 0 /sys/class/net/$NETDEV/statistics/rx_crc_errors"

find_gid
second_gid=$(for gid in /sys/class/infiniband/mlx5_1/ports/1/gids/*; do
  grep -q '0000:0000:0000:0000:0000:ffff:0a09:0002' "$gid" &&
    grep -q 'RoCE v2' "/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/${gid##*/}" && echo "${gid##*/}"
done)
if [ "$second_gid" ]; then pass second-gid; else fail second-gid "no RoCE v2 identifier of 10.9.0.2"; fi
for program in rc uc ud srq; do
  pair "$program-pingpong" 60 "ibv_${program}_pingpong -c -d mlx5_0 -g $GID" \
    "$peer ibv_${program}_pingpong -c -d mlx5_1 -g $second_gid 10.9.0.1"
done
for program in write_bw read_bw send_bw send_lat; do
  pair "$program" 60 "ib_$program -F -n 300 -d mlx5_0 -x $GID" \
    "$peer ib_$program -F -n 300 -d mlx5_1 -x $second_gid 10.9.0.1"
done
pair rping 60 "rping -s -V -a 10.9.0.1 -C 20 -S 30000" "$peer rping -c -V -a 10.9.0.1 -C 20 -S 30000"
