# Another guest, at the other end of a cable. Read after nic.sh by the suites that have "# peer: LINK".
# shellcheck shell=bash
#
# After other_guest_up: OTHER is its RDMA device, OTHER_NETDEV its interface, OTHER_GID the index of the identifier to
# use (RoCE v2 over IPv4), PEER the words before a command that run it there, and MOST_MTU the longest path MTU.

# How long a program may take: two guests share the machine.
ACROSS_SECONDS=240

# other_guest_up: waits for the other guest. Says why and fails when it does not come.
other_guest_up() {
  PEER="bash /lab/remote.sh"
  # shellcheck disable=SC2086 # a command and its arguments
  wait_for 120 $PEER true || {
    fail other-guest "it does not answer"
    return 1
  }
  read -r OTHER OTHER_GID OTHER_NETDEV <<<"$($PEER cat /run/lab/nic)"
  # For packets of 4096 bytes. The virtual BCM57608 takes no frames longer than a buffer, of which a driver puts
  # several together where they may be that long.
  MOST_MTU=1024
  [ "$LINK" = netxtreme ] || {
    MOST_MTU=4096
    $PEER ip link set "$OTHER_NETDEV" mtu 4200
    ip link set "$NETDEV" mtu 4200
  }
  wait_for 20 port_is ACTIVE
  wait_for 60 $PEER grep -q ACTIVE "/sys/class/infiniband/$OTHER/ports/1/state"
  wait_for 20 find_gid
  check ping 60 ping -c 5 10.9.0.2
}

# listeners: in both guests.
listeners() {
  # shellcheck disable=SC2086 # a command and its arguments
  { cat /proc/net/tcp /proc/net/tcp6 && $PEER cat /proc/net/tcp /proc/net/tcp6; } 2>/dev/null | grep -c ' 0A '
  rdma resource show cm_id 2>/dev/null | grep -c ' LISTEN '
}

can_ask_atomics() {
  ! ibv_devinfo -v -d "$NIC" | grep -q ATOMIC_NONE
}

# both_ways NAME PROGRAM OPTION...: a program of rdma-core or perftest, with its client here, and with its server
# here. The option for the identifier is -g of rdma-core's programs and -x of perftest's.
both_ways() {
  local name="$1" letter=x here there
  shift
  case $1 in ibv_*) letter=g ;; esac
  here="$* -d $NIC -$letter $GID"
  there="$PEER timeout $ACROSS_SECONDS $* -d $OTHER -$letter $OTHER_GID"
  if [[ $1 == ib_atomic_* ]] && ! can_ask_atomics; then
    skip "$name-to-other" "bnxt_re offers atomics where the root port lets them pass, which QEMU's does not"
  else
    pair "$name-to-other" $ACROSS_SECONDS "$there" "$here 10.9.0.2"
  fi
  pair "$name-from-other" $ACROSS_SECONDS "$here" "$there 10.9.0.1"
}

# programs_across: what every pair of NICs must do.
programs_across() {
  local program size
  both_ways pingpong ibv_rc_pingpong -c -n 200
  both_ways pingpong-events ibv_rc_pingpong -c -e -n 50
  both_ways pingpong-1-byte ibv_rc_pingpong -c -s 1 -n 100
  for size in 256 512 1024 2048 4096; do
    [ "$size" -gt "$MOST_MTU" ] || both_ways "mtu-$size" ibv_rc_pingpong -c -m "$size" -s 32768 -n 10
  done
  # A slow machine needs more time than these programs give: -u 20 is 4 s.
  for program in write send; do
    both_ways "$program-lat" ib_${program}_lat -F -u 20 -n 50
    both_ways "$program-bw" ib_${program}_bw -F -u 20 -n 20
  done
  # perftest asks for as many reads at once as its own device can.
  for program in read atomic; do
    both_ways "$program-lat" ib_${program}_lat -F -u 20 -n 50 -o 8
    both_ways "$program-bw" ib_${program}_bw -F -u 20 -n 20 -o 8
  done
  both_ways write-1-MiB ib_write_bw -F -u 20 -n 5 -s 1048576
  both_ways read-1-MiB ib_read_bw -F -u 20 -n 5 -s 1048576 -o 8
}

# doorbell_across: doorbell on this guest's NIC and a program of libibverbs on the other's: every operation.
doorbell_across() {
  local doorbell="doorbell pingpong --device $NIC --timeout 60" pingpong
  pingpong="$PEER timeout $ACROSS_SECONDS ibv_rc_pingpong -c -n 100 -d $OTHER -g $OTHER_GID"
  pair doorbell-asks-pingpong $ACROSS_SECONDS "$pingpong" \
    "$doorbell --with ibv_rc_pingpong --iterations 100 10.9.0.2"
  pair doorbell-answers-pingpong $ACROSS_SECONDS "$doorbell --with ibv_rc_pingpong --iterations 100" \
    "$pingpong 10.9.0.1"
  for mtu in 256 4096; do
    pair "doorbell-all-operations-mtu-$mtu" $ACROSS_SECONDS \
      "$PEER timeout $ACROSS_SECONDS python3 /lab/peer.py $OTHER 18519 $OTHER_GID" \
      "$doorbell --connect 10.9.0.2 --op all --sizes 1,255,4K,100K --iterations 5 --mtu $mtu"
  done
}
