# The NIC that the suites run on. Read after results.sh by each suite.
# shellcheck shell=bash
#
# After nic_up: NIC is the RDMA device, NETDEV its network interface (empty on InfiniBand), GID the index of
# the identifier to use (RoCE v2 over IPv4; empty on InfiniBand).

# Its address, and the interface that rxe is on.
OWN_ADDRESS=10.9.0.1 SOFTWARE_NETDEV=dummy0

# loaded MODULE
loaded() {
  grep -q "^$1 " /proc/modules
}

# nic_modules: loads what the NIC needs.
nic_modules() {
  case $LINK in
    software) modprobe -a rdma_rxe dummy || return 1 ;;
    netxtreme) modprobe bnxt_en && modprobe bnxt_re || return 1 ;;
    *) modprobe mlx5_core && modprobe mlx5_ib || return 1 ;;
  esac
  modprobe -a ib_uverbs ib_umad rdma_ucm
}

# port_is STATE: whether the first port is in that state (ACTIVE, DOWN, ...).
port_is() {
  grep -q ": $1\$" "/sys/class/infiniband/$NIC/ports/1/state"
}

# nic_up: brings the NIC up, unless it is. Says why and fails when it cannot.
nic_up() {
  nic_modules || {
    fail nic-up "modules do not load"
    return 1
  }
  NETDEV='' GID=''
  if [ "$LINK" = software ]; then
    NIC=rxe0 NETDEV=$SOFTWARE_NETDEV
    ip link show "$NETDEV" >/dev/null 2>&1 || ip link add "$NETDEV" type dummy
    [ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev "$NETDEV"
  elif [ "$LINK" = netxtreme ]; then
    NIC=bnxt_re0
  else
    NIC=mlx5_0
  fi
  wait_for 20 test -e "/sys/class/infiniband/$NIC/ports/1/state" || {
    fail nic-up "no RDMA device $NIC"
    return 1
  }
  if [ "$LINK" != infiniband ]; then
    # shellcheck disable=SC2012 # an interface's name
    [ "$NETDEV" ] || NETDEV=$(ls "/sys/class/infiniband/$NIC/device/net" 2>/dev/null | head -n 1)
    [ "$NETDEV" ] || {
      fail nic-up "$NIC has no network interface"
      return 1
    }
    ip address replace "$OWN_ADDRESS/24" dev "$NETDEV"
    ip link set "$NETDEV" up
  fi
  wait_for 20 port_is ACTIVE || {
    fail nic-up "the port is $(cat "/sys/class/infiniband/$NIC/ports/1/state")"
    return 1
  }
  if [ "$LINK" != infiniband ]; then
    wait_for 20 find_gid || {
      fail nic-up "no RoCE v2 identifier of $OWN_ADDRESS"
      return 1
    }
  fi
}

# gid_of DEVICE ADDRESS: the index of the RoCE v2 identifier of an IPv4 address.
gid_of() {
  local gid ports="/sys/class/infiniband/$1/ports/1" bytes
  bytes=$(echo "$2" | tr . ' ')
  # shellcheck disable=SC2086 # four numbers
  bytes=$(printf '%02x%02x:%02x%02x' $bytes)
  for gid in "$ports/gids"/*; do
    grep -qx "0000:0000:0000:0000:0000:ffff:$bytes" "$gid" || continue
    grep -q 'RoCE v2' "$ports/gid_attrs/types/${gid##*/}" 2>/dev/null && echo "${gid##*/}" && return 0
  done
  return 1
}

# find_gid: sets GID.
find_gid() {
  GID=$(gid_of "$NIC" "$OWN_ADDRESS")
}

# nic_down: unloads the drivers.
nic_down() {
  if [ "$LINK" = netxtreme ]; then
    modprobe -r bnxt_re
    loaded bnxt_re && return 1
    modprobe -r bnxt_en
    ! loaded bnxt_en
    return
  fi
  modprobe -r mlx5_ib
  loaded mlx5_ib && return 1
  modprobe -r mlx5_core
  ! loaded mlx5_core
}

# gid_option LETTER: the option that selects the identifier, "-LETTER index", or nothing on InfiniBand.
gid_option() {
  [ -z "$GID" ] || echo "-$1 $GID"
}

# resources: how many RDMA objects of each kind there are, a line.
resources() {
  rdma resource show 2>/dev/null | grep " $NIC:" | sed 's/.*: //'
}

# unbuffered COMMAND...: the command on a terminal of its own, so that it writes each line at once.
unbuffered() {
  python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$@"
}

# pingpong NAME PROGRAM OPTION...: one of rdma-core's pingpong programs against itself.
pingpong() {
  local name="$1"
  shift
  pair "$name" "${SECONDS_EACH:-60}" "$* -d $NIC $(gid_option g)" "$* -d $NIC $(gid_option g) 127.0.0.1"
}

# perftest NAME PROGRAM OPTION...: one of perftest's programs against itself.
perftest() {
  local name="$1"
  shift
  pair "$name" "${SECONDS_EACH:-60}" "$* -F -d $NIC $(gid_option x)" "$* -F -d $NIC $(gid_option x) 127.0.0.1"
}

# nic_objects: how many objects of programs the virtual NIC has. Not the memory keys, of which the kernel
# keeps some for the next program.
nic_objects() {
  ask model objects | sed 's/mkey=[0-9]* //'
}

# all_is_back RESOURCES OBJECTS: whether the kernel's account and the NIC's are what they were.
all_is_back() {
  [ "$(resources)" = "$1" ] && [ "$(nic_objects)" = "$2" ]
}

# moving: whether the NIC has moved messages since this was asked last.
moving() {
  local now
  now=$(ask model counters)
  [ "$now" != "$COUNTERS" ] && COUNTERS=$now
}

# connected PROCESS: whether it has queue pairs that are ready to send.
connected() {
  rdma resource show qp | grep -q " state RTS .* pid $1 "
}

# traffic NAME OPTION...: a doorbell program whose messages move, in the background: PROGRAM is its process, and what
# it says goes to /tmp/traffic.out. Says why there is none, with the name behind "traffic".
traffic() {
  local name="$1"
  shift
  COUNTERS=''
  doorbell pingpong --device "$NIC" --iterations 100000000 "$@" >/tmp/traffic.out 2>&1 &
  PROGRAM=$!
  wait_for 60 connected "$PROGRAM" && moving && wait_for 60 moving && return 0
  kill -9 "$PROGRAM"
  wait "$PROGRAM" 2>/dev/null
  if grep -q 'UAR_OBJ_ALLOC: not supported' /tmp/traffic.out; then
    skip "traffic$name" "the kernel has found that this machine combines no writes"
  else
    fail "traffic$name" "there is none: $(tail -n 1 /tmp/traffic.out)"
  fi
  return 1
}
