# The suites in which doorbell takes the NIC from its kernel driver. Read after nic.sh.
# shellcheck shell=bash

# PCI Express' device control register, and its bit for relaxed ordering; the command register, and its bit for bus
# mastering.
readonly DEVICE_CONTROL=CAP_EXP+8.w RELAXED_ORDERING=0x10 COMMAND=COMMAND BUS_MASTER=4

# register NAME BITS: those bits of a register of the function.
register() {
  echo $((0x$(setpci -s "$FUNCTION" "$1") & $2))
}

# same WHAT EXPECTED FOUND
same() {
  if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "$3, not $2"; fi
}

# refused NAME WORDS COMMAND...: passes when the command ends with an error that has these words.
refused() {
  local name="$1" words="$2" status
  shift 2
  echo "----- $name: $*"
  timeout -k 5 60 "$@" >/tmp/refused.out 2>&1
  status=$?
  cat /tmp/refused.out
  if [ $status = 1 ] && grep -qF "$words" /tmp/refused.out; then
    pass "$name"
  else
    fail "$name" "exit status $status: $(head -n 1 /tmp/refused.out)"
  fi
}

# listed NAME WORDS: whether `doorbell devices` says this of BNXT.
listed() {
  local said
  said=$(doorbell devices | sed -n '/^BNXT$/,/^$/p')
  echo "$said"
  if echo "$said" | grep -qF "$2"; then pass "$1"; else fail "$1" "$(echo "$said" | tail -n 1)"; fi
}

driver() {
  local link
  link=$(readlink "/sys/bus/pci/devices/$FUNCTION/driver") && echo "${link##*/}" || echo none
}

is_held() {
  doorbell attach BNXT 2>&1 | grep -q 'a process holds'
}

# with_stock: doorbell on the function, and a stock program on the second NIC, which the stock driver has.
with_stock() {
  local other=bnxt_re1 netdev mac gid from stock
  # shellcheck disable=SC2012 # an interface's name
  netdev=$(ls /sys/class/infiniband/$other/device/net)
  mac=$(cat "/sys/class/net/$netdev/address")
  ip link set "$netdev" up
  ip address replace 10.9.0.2/8 dev "$netdev"
  # Nobody answers for the function of doorbell's: its address is made of its Ethernet address, as it says itself.
  from=$(printf '10.%d.%d.%d' 0x57 0 1)
  ip neighbour replace "$from" lladdr 02:0a:f7:57:00:01 dev "$netdev" nud permanent
  wait_for 30 gid_of $other 10.9.0.2
  gid=$(gid_of $other 10.9.0.2)
  for size in 4096 65536; do
    stock="ibv_rc_pingpong -c -d $other -g $gid -n 100 -s $size"
    own="doorbell pingpong --device BNXT --with ibv_rc_pingpong --peer-mac $mac --iterations 100 --size $size"
    pair "to-stock-$size" 100 "$stock" "$own 127.0.0.1"
    pair "from-stock-$size" 100 "$own" "$stock 127.0.0.1"
  done
  ip address flush dev "$netdev"
}

# own DRIVER WAY: takes the function of the NIC, which DRIVER then has, drives it through WAY, and gives it back.
own() {
  local with="$1" way="$2" relaxed program size
  nic_up || return
  pingpong stock-before ibv_rc_pingpong -c -n 100
  FUNCTION=$(readlink -f "/sys/class/infiniband/$NIC/device")
  FUNCTION=${FUNCTION##*/}

  listed listed-with-its-driver "is with bnxt_en: detach it first"
  refused not-opened-while-driven "$FUNCTION is with bnxt_en" doorbell pingpong --device BNXT
  check detach 60 doorbell detach BNXT
  same detached "$with" "$(driver)"
  same no-rdma-device 1 "$([ -e "/sys/class/infiniband/$NIC" ] || echo 1)"
  listed listed-detached "$way"

  # What is to be as before, and what is to be off while it is open.
  setpci -s "$FUNCTION" "$DEVICE_CONTROL=$RELAXED_ORDERING:$RELAXED_ORDERING"
  same relaxed-ordering-before $((RELAXED_ORDERING)) "$(register $DEVICE_CONTROL $RELAXED_ORDERING)"
  # vfio-pci resets a function before it gives it to a process, and the kernel keeps its registers or does not.
  echo 1 >"/sys/bus/pci/devices/$FUNCTION/reset"
  relaxed=$(register $DEVICE_CONTROL $RELAXED_ORDERING)
  check operations 200 doorbell pingpong --device BNXT --op all --sizes 1,64,4K,64K --iterations 50
  check long-messages 200 doorbell pingpong --device BNXT --op write,read,send --sizes 1M --iterations 2 --warmup 0
  check inline 100 doorbell pingpong --device BNXT --op write,send --inline --sizes 8,64 --iterations 50
  if [ "$relaxed" = 0 ]; then
    skip relaxed-ordering-after "a reset by the kernel turns it off while $with has the function"
  else
    same relaxed-ordering-after "$relaxed" "$(register $DEVICE_CONTROL $RELAXED_ORDERING)"
  fi
  same bus-mastering-after 0 "$(register $COMMAND $BUS_MASTER)"

  # While a process has it open: nobody else has it, and its registers are as they should be.
  doorbell pingpong --device BNXT --op write --sizes 4K --iterations 1000000 >/tmp/open.out 2>&1 &
  program=$!
  if wait_for 60 is_held; then pass held; else fail held "nobody holds it: $(tail -n 1 /tmp/open.out)"; fi
  wait_for 30 sh -c "[ \$((0x\$(setpci -s $FUNCTION $COMMAND) & $BUS_MASTER)) = $BUS_MASTER ]"
  same bus-mastering-while-open $BUS_MASTER "$(register $COMMAND $BUS_MASTER)"
  same relaxed-ordering-while-open 0 "$(register $DEVICE_CONTROL $RELAXED_ORDERING)"
  refused detach-while-open "a process holds PCI function $FUNCTION" doorbell detach BNXT
  refused attach-while-open "a process holds PCI function $FUNCTION" doorbell attach BNXT
  refused open-while-open "a process holds PCI function $FUNCTION" doorbell pingpong --device BNXT
  # Whatever it was doing: the next one resets it.
  kill -9 $program
  wait $program
  check after-a-kill 100 doorbell pingpong --device BNXT --op write,send --sizes 4K --iterations 50

  with_stock
  check attach 60 doorbell attach BNXT
  same attached bnxt_en "$(driver)"
  nic_up || return
  pingpong stock-after ibv_rc_pingpong -c -n 100
  perftest stock-after-write ib_write_bw -n 200
  # And once more, as the kernel's driver has left it.
  check detach-again 60 doorbell detach BNXT
  check operations-again 100 doorbell pingpong --device BNXT --op write,send,read --sizes 4K --iterations 50
  check attach-again 60 doorbell attach BNXT
  nic_up && pingpong stock-at-last ibv_rc_pingpong -c -n 100
}
