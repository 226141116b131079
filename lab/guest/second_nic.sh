# A second NIC beside the first. Read after nic.sh by the suites that have "# nics: 2".
# shellcheck shell=bash
#
# After second_up: OTHER is its RDMA device, PEER the words before a command that run it in the network of its
# interface, OTHER_NETDEV, OTHER_GID the index of the identifier to use (RoCE v2 over IPv4), and ADDRESS is where
# the first NIC's programs are found from there. On InfiniBand there is no interface: programs talk to each other
# over the loopback interface, and RDMA takes local identifiers.

# second_up DEVICE: brings the second NIC up after the first. Says why and fails when it cannot.
second_up() {
  OTHER=$1 PEER='' OTHER_NETDEV='' OTHER_GID='' ADDRESS=127.0.0.1
  wait_for 20 test -e "/sys/class/infiniband/$OTHER/ports/1/state" || {
    fail second-nic "no RDMA device $OTHER"
    return 1
  }
  if [ "$LINK" != infiniband ]; then
    # A network of its own, so that nothing takes a short cut.
    # shellcheck disable=SC2012 # an interface's name
    OTHER_NETDEV=$(ls "/sys/class/infiniband/$OTHER/device/net") PEER="ip netns exec peer" ADDRESS=10.9.0.1
    ip netns add peer
    ip link set "$OTHER_NETDEV" netns peer
    ip -n peer address add 10.9.0.2/24 dev "$OTHER_NETDEV"
    ip -n peer link set "$OTHER_NETDEV" up
    ip -n peer link set lo up
  fi
  wait_for 20 other_is_active || {
    fail second-nic "its port is $(cat "/sys/class/infiniband/$OTHER/ports/1/state")"
    return 1
  }
  [ "$LINK" = infiniband ] || wait_for 20 other_gid || {
    fail second-nic "no RoCE v2 identifier of 10.9.0.2"
    return 1
  }
}

other_is_active() {
  grep -q ': ACTIVE$' "/sys/class/infiniband/$OTHER/ports/1/state"
}

other_gid() {
  OTHER_GID=$(gid_of "$OTHER" 10.9.0.2)
}

# frames_across: what the kernel's network does from one interface to the other.
frames_across() {
  local link_local
  # shellcheck disable=SC2086 # a command and its arguments
  check carrier 20 wait_for 15 $PEER ping -c 1 -W 1 10.9.0.1
  check ping 30 ping -c 10 -i 0.2 10.9.0.2
  # shellcheck disable=SC2086
  check ping-back 30 $PEER ping -c 10 -i 0.2 10.9.0.1
  check ping-1400-bytes 30 ping -c 5 -i 0.2 -s 1400 10.9.0.2
  check ping-fragments 30 ping -c 5 -i 0.2 -s 20000 10.9.0.2
  link_local=$(ip -n peer -6 address show dev "$OTHER_NETDEV" scope link | sed -n 's,.*inet6 \(.*\)/.*,\1,p')
  check ping-ipv6 30 ping -6 -c 5 -i 0.2 "$link_local%$NETDEV"
  pair tcp 120 "python3 /lab/tcp.py listen 10.9.0.1" "$PEER python3 /lab/tcp.py connect 10.9.0.1"
  check received-without-errors 5 grep -qxF 0 "/sys/class/net/$NETDEV/statistics/rx_errors"
}

# across NAME LETTER PROGRAM OPTION...: a program of rdma-core or perftest from one NIC to the other. LETTER is its
# option that selects an identifier.
across() {
  local name="$1" letter="$2"
  shift 2
  pair "$name" 60 "$* -d $NIC $(gid_option "$letter")" "$PEER $* -d $OTHER ${OTHER_GID:+-$letter $OTHER_GID} $ADDRESS"
}
