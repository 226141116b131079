# about: two NICs on one network: frames, TCP and RDMA from one to the other
# link: ethernet infiniband
# seconds: 300
# boot: own
# nics: 2
# shellcheck shell=bash

. /lab/second_nic.sh
nic_up && second_up mlx5_1 || exit 0
if [ "$NETDEV" ]; then
  frames_across
  check mtu-9000 10 sh -c "ip link set $NETDEV mtu 9000 && ip -n peer link set $OTHER_NETDEV mtu 9000"
  wait_for 10 grep -q 1 "/sys/class/net/$NETDEV/carrier"
  check ping-9000-bytes 30 ping -c 5 -i 0.5 -s 8900 10.9.0.2
  # The interfaces were down for it.
  wait_for 20 port_is ACTIVE
  wait_for 20 find_gid
  wait_for 20 other_gid
  pair tcp-9000-bytes 120 "python3 /lab/tcp.py listen 10.9.0.1" "$PEER python3 /lab/tcp.py connect 10.9.0.1"
fi
for program in rc uc ud srq; do
  across "$program-pingpong" g ibv_${program}_pingpong -c
done
for program in write_bw read_bw send_bw send_lat; do
  across "$program" x ib_$program -F -n 300
done
[ -z "$NETDEV" ] ||
  pair rping 60 "rping -s -V -a 10.9.0.1 -C 20 -S 30000" "$PEER rping -c -V -a 10.9.0.1 -C 20 -S 30000"
