# rxe here, and a network of its own for virtual NICs that run in programs, with a cable to this one. Read after
# nic.sh by the suites in which the two meet.
# shellcheck shell=bash

# rxe_peer_up: afterwards NIC is rxe's device, with address 10.9.0.1 and identifier GID; PEER are the words before a
# command that run it in the other network, which has the address 10.9.0.2.
rxe_peer_up() {
  modprobe -a rdma_rxe veth ib_uverbs rdma_ucm || {
    fail modules "they do not load"
    return 1
  }
  PEER="ip netns exec peer"
  ip netns add peer
  ip link add cable mtu 9000 type veth peer name cable mtu 9000 netns peer
  ip address add 10.9.0.1/24 dev cable
  ip -n peer address add 10.9.0.2/24 dev cable
  ip link set cable up
  ip -n peer link set cable up
  ip -n peer link set lo up
  rdma link add rxe0 type rxe netdev cable
  # shellcheck disable=SC2034 # the suites'
  NIC=rxe0
  wait_for 20 port_is ACTIVE
  wait_for 20 find_gid || {
    fail rxe "no RoCE v2 identifier of 10.9.0.1"
    return 1
  }
}

# listeners: in both networks.
listeners() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -c ' 0A '
  # shellcheck disable=SC2086 # a command and its arguments
  $PEER cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -c ' 0A '
}
