# Boots one guest on one virtual NIC, runs suites in it and gathers their results.
# Sourced by lab/run, which sets CACHE, LAB, LOGS and DOORBELL.
# shellcheck shell=bash disable=SC2153
#
# The guest talks to this machine over a virtio port, a line at a time (guest/results.sh):
#   BOOT n seconds          the guest is up, for the n-th time
#   SUITE name              a suite begins
#   PASS|FAIL|SKIP what why
#   DONE name status seconds
#   ASK request             answered with one line:
#     boots                   how often the guest has asked this
#     model LINE              hands a line to the virtual NIC, and answers what it answers
#     monitor LINE            hands a line to QEMU's monitor
#   END                     all suites have been run

# How long a guest may take until its first suite.
readonly BOOT_SECONDS=120

# How many times as long as on an idle machine all may take.
readonly SLOW=${LAB_SLOW:-1}

# header SUITE KEY: what the comment "# KEY: value" at the head of the suite says.
header() {
  sed -n "1,/^[^#]/s/^# $2: *//p" "$LAB/suites/$1.sh" | head -1
}

# start_model LINK NICS DIRECTORY OPTION...: starts virtual NICs, on one network, which have to listen before QEMU starts.
start_model() {
  local link=$1 nics=$2 directory=$3 try number sockets=()
  shift 3
  for ((number = 1; number <= nics; number++)); do
    sockets+=(--socket "$directory/nic$number.socket")
  done
  mkfifo "$directory"/model.{in,out}
  exec {MODEL_IN}<>"$directory/model.in" {MODEL_OUT}<>"$directory/model.out"
  local model=(connectx --link "$link")
  [[ $link == netxtreme ]] && model=(netxtreme)
  setpriv --pdeathsig KILL "$DOORBELL" model "${model[@]}" "${sockets[@]}" "$@" \
    <&"$MODEL_IN" >&"$MODEL_OUT" 2>"$directory/model.log" &
  MODEL=$!
  for ((try = 0; try < 100; try++)); do
    [[ -S $directory/nic$nics.socket ]] && return 0
    kill -0 "$MODEL" 2>/dev/null || break
    sleep 0.1
  done
  echo "lab: the virtual NIC does not listen; its last words:" >&2
  tail -5 "$directory/model.log" >&2
  return 1
}

# stop_model: sets MODEL_END to why the virtual NIC's end was not a good one; empty if it was.
stop_model() {
  local try status
  MODEL_END=
  [[ $MODEL ]] || return 0
  # It ends by itself when QEMU has hung up.
  for ((try = 0; try < 50; try++)); do
    kill -0 "$MODEL" 2>/dev/null || break
    sleep 0.1
  done
  if kill "$MODEL" 2>/dev/null; then
    wait "$MODEL"
    MODEL_END="the virtual NIC went on after QEMU had hung up"
  else
    wait "$MODEL"
    status=$?
    ((status == 0)) || MODEL_END="the virtual NIC ended with status $status"
  fi
  exec {MODEL_IN}>&- {MODEL_OUT}>&-
  MODEL=
}

# guest_arguments KERNEL LINK NICS WORDS IMAGE: QEMU's arguments, in ARGUMENTS, for a guest with these words on its
# command line. The directory of the boot is DIRECTORY.
guest_arguments() {
  local kernel=$1 link=$2 nics=$3 words=$4 image=$5 number
  # shellcheck disable=SC2054 # the commas are QEMU's
  ARGUMENTS=(
    -accel tcg,thread=multi -cpu max -smp 2 -m 2G
    # The virtual NIC maps the guest's memory, so it has to be a file that both can map.
    -object memory-backend-memfd,id=memory,size=2G,share=on -machine q35,memory-backend=memory
    -nodefaults -display none
    -kernel "$CACHE/kernel/$kernel/vmlinuz" -initrd "$image"
    -append "console=ttyS0 panic=-1 lab.kernel=$kernel lab.link=$link lab.slow=$SLOW${LAB_TESTS:+ LAB_TESTS=$LAB_TESTS} $words"
  )
  [[ $link == software ]] && return
  for ((number = 1; number <= nics; number++)); do
    ARGUMENTS+=(-device "pcie-root-port,id=port$number,chassis=$number,slot=$number")
    ARGUMENTS+=(-device '{"driver":"vfio-user-pci","id":"nic'"$number"'","bus":"port'"$number"'",
      "socket":{"type":"unix","path":"'"$DIRECTORY/nic$number.socket"'"}}')
  done
}

# image_of KERNEL LINK: the file system of such a guest.
image_of() {
  echo "$LOGS/$1-$(userland_of "$1" "$2").img"
}

# start_peer KERNEL LINK IMAGE LOGS: starts the guest at the other end of the cable, and its virtual NIC if it has
# one, in DIRECTORY/peer. It runs what the first guest asks it to, over the cable (guest/other_guest.sh). PEERS are
# the processes.
start_peer() {
  local kernel=$1 link=$2 image=$3 logs=$4 ends="$DIRECTORY/cable.peer,$DIRECTORY/cable" ARGUMENTS try
  local DIRECTORY=$DIRECTORY/peer family=connectx
  mkdir "$DIRECTORY"
  if [[ $link != software ]]; then
    [[ $link == netxtreme ]] && family=netxtreme
    setpriv --pdeathsig KILL "$DOORBELL" model "$family" --socket "$DIRECTORY/nic1.socket" --number 2 --cable "$ends" \
      </dev/null >"$logs/peer-model.log" 2>&1 &
    PEERS+=($!)
    for ((try = 0; try < 100; try++)); do
      [[ -S $DIRECTORY/nic1.socket ]] && break
      sleep 0.1
    done
  fi
  guest_arguments "$kernel" "$link" 1 lab.peer "$image"
  # Not virtio-net, whose driver keeps the last packets it sent until it sends more: rxe waits for them.
  # shellcheck disable=SC2054 # the commas are QEMU's
  [[ $link == software ]] && ARGUMENTS+=(
    -netdev "dgram,id=cable,local.type=unix,local.path=${ends%,*},remote.type=unix,remote.path=${ends#*,}"
    -device "e1000,netdev=cable,mac=02:00:00:00:00:02"
  )
  qemu_exec "${ARGUMENTS[@]}" -no-reboot -chardev "file,id=console,path=$logs/peer-console" -serial chardev:console \
    </dev/null >"$logs/peer-qemu" 2>&1 &
  PEERS+=($!)
}

# answer REQUEST...: does what the guest asked for.
answer() {
  local word=$1 line
  shift
  case $word in
    boots)
      ((++BOOTS))
      echo "$BOOTS"
      ;;
    model)
      echo "$*" >&"$MODEL_IN"
      IFS= read -r -t 10 -u "$MODEL_OUT" line && echo "$line" || echo "the virtual NIC does not answer"
      ;;
    monitor) echo "$*" >&"$MONITOR_IN" && echo ok ;;
    *) echo "the host knows no request $word" ;;
  esac >&"$CHANNEL_IN"
}

# boot KERNEL LINK SUITE...: one guest and its suites. The results go to $LOGS/results, a line each: "kernel link suite PASS|FAIL|SKIP what why".
boot() {
  local kernel=$1 link=$2 nics reboots peer iommu suite suites seconds=$BOOT_SECONDS started=$SECONDS line part='' left status
  shift 2
  suites=$*
  # A suite that asks for these has a boot of its own.
  nics=$(header "$1" nics) reboots=$(header "$1" reboots) peer=$(header "$1" peer)
  nics=${nics:-1}
  local name="$kernel-$link-${suites// /+}"
  local logs=$LOGS/${name:0:100}
  # Sockets have short paths, so not in the cache.
  local DIRECTORY MODEL='' MODEL_END MODEL_IN MODEL_OUT QEMU MONITOR_IN CHANNEL_IN CHANNEL_OUT BOOTS=0 ARGUMENTS current='' ended='' PEERS=() cable=()
  DIRECTORY=$(mktemp -d)
  mkdir -p "$logs"
  trap 'jobs -p | xargs -r kill -9; rm -rf "$DIRECTORY"; exit 1' HUP INT TERM
  echo "lab: $kernel kernel, link $link: $suites" >&2

  result() {
    echo "$kernel $link $*" >>"$LOGS/results"
  }

  [[ $peer ]] && cable=(--cable "$DIRECTORY/cable,$DIRECTORY/cable.peer" --pcap "$logs/frames.pcap")
  if [[ $link != software ]] && ! start_model "$link" "$nics" "$DIRECTORY" "${cable[@]}"; then
    for suite; do
      result "$suite" FAIL start "the virtual NIC does not listen"
    done
    cp "$DIRECTORY/model.log" "$logs"
    rm -rf "$DIRECTORY"
    return 1
  fi
  for suite; do
    ((seconds += $(header "$suite" seconds)))
  done
  ((seconds *= SLOW))

  mkfifo "$DIRECTORY"/{channel,monitor}.{in,out}
  exec {CHANNEL_IN}<>"$DIRECTORY/channel.in" {CHANNEL_OUT}<>"$DIRECTORY/channel.out"
  exec {MONITOR_IN}<>"$DIRECTORY/monitor.in"
  iommu=$(header "$1" iommu)
  [[ $peer ]] && start_peer "$kernel" "$peer" "$(image_of "$kernel" "$link")" "$logs"
  # A busy host is too slow for the kernel's check of its timer, which behind an IOMMU ends in a panic.
  guest_arguments "$kernel" "$link" "$nics" "lab.suites=${suites// /,}${iommu:+ no_timer_check}" \
    "$(image_of "$kernel" "$link")"
  # shellcheck disable=SC2054 # the commas are QEMU's
  ARGUMENTS+=(
    -chardev "file,id=console,path=$logs/console" -serial chardev:console
    -chardev "pipe,id=channel,path=$DIRECTORY/channel"
    -device virtio-serial-pci -device virtserialport,chardev=channel,name=lab
    -chardev "pipe,id=monitor,path=$DIRECTORY/monitor" -mon chardev=monitor,mode=readline
  )
  # With caching mode, or the virtual NIC would not hear of what the guest maps.
  # shellcheck disable=SC2054 # the comma is QEMU's
  [[ $iommu ]] && ARGUMENTS+=(-device intel-iommu,caching-mode=on)
  # A panic starts the machine anew, which ends QEMU unless a suite does the same.
  [[ $reboots == yes ]] || ARGUMENTS+=(-no-reboot)
  qemu_exec "${ARGUMENTS[@]}" </dev/null >"$logs/qemu" 2>&1 &
  QEMU=$!
  # The monitor's echo has to go somewhere, or QEMU would wait for a reader.
  cat "$DIRECTORY/monitor.out" >"$logs/monitor" 2>/dev/null &
  local monitor=$!

  while :; do
    left=$((seconds - (SECONDS - started)))
    if ((left <= 0)); then
      result "${current:-boot}" FAIL time "the guest was not done after $seconds s"
      break
    fi
    if ! IFS= read -r -t 1 -u "$CHANNEL_OUT" line; then
      # The time was up, maybe in the middle of a line.
      part+=$line
      kill -0 "$QEMU" 2>/dev/null || break
      # QEMU would go on without its NIC, and so would the guest.
      [[ $link == software ]] || kill -0 "$MODEL" 2>/dev/null || break
      continue
    fi
    line=$part$line part=
    echo "$line" >>"$logs/channel"
    # shellcheck disable=SC2086 # words, that none of the guest's programs makes a pattern of
    case $line in
      "SUITE "*) current=${line#SUITE } ;;
      "PASS "* | "FAIL "* | "SKIP "*) result "${current:-boot}" "$line" ;;
      "DONE "*) suite_done ${line#DONE } ;;
      "ASK "*) answer ${line#ASK } ;;
      END) ended=yes ;;
    esac
  done

  [[ $ended ]] && for ((left = 0; left < 100; left++)); do
    kill -0 "$QEMU" 2>/dev/null || break
    sleep 0.1
  done
  # It has nothing to save, and does not heed a milder signal while it waits for a NIC.
  kill -9 "$QEMU" 2>/dev/null
  wait "$QEMU" 2>/dev/null
  status=$?
  kill "$monitor" 2>/dev/null
  # Nothing is left to do for the other guest; its NIC ends with it.
  ((${#PEERS[@]})) && kill "${PEERS[-1]}" 2>/dev/null && wait "${PEERS[@]}" 2>/dev/null
  exec {CHANNEL_IN}>&- {CHANNEL_OUT}>&- {MONITOR_IN}>&-

  if [[ ! $ended ]]; then
    result "${current:-boot}" FAIL guest "the guest died or stuck; QEMU's status $status; see $logs"
    echo "lab: the end of the guest's console:" >&2
    tail -25 "$logs/console" | cut -c1-200 >&2
    tail -5 "$logs/qemu" >&2
  fi
  for suite; do
    grep -q "^DONE $suite " "$logs/channel" 2>/dev/null || result "$suite" FAIL unfinished "see $logs"
  done
  judge_logs
  rm -rf "$DIRECTORY"
  trap - HUP INT TERM
  echo "lab: ... $((SECONDS - started)) s" >&2
}

# suite_done SUITE STATUS UPTIME: a suite that ends with an error has failed, whatever it said before.
suite_done() {
  case $2 in
    0) ;;
    124 | 137 | 143) result "$1" FAIL time "not done after $(($(header "$1" seconds) * SLOW)) s" ;;
    *) result "$1" FAIL status "the suite's script ended with status $2" ;;
  esac
}

# judge_logs: what must not be in any log, whatever the suites say.
judge_logs() {
  local bad
  bad=$(grep -ahoE 'Kernel panic.*|Oops:.*|BUG: .*|WARNING: .*|general protection fault.*|Call Trace:|hung_task:.*|blocked for more than.*' \
    "$logs"/{,peer-}console 2>/dev/null | grep -vF "WARNING: BW peak won't be measured" | head -1)
  [[ $bad ]] && result kernel FAIL console "$bad"
  if [[ $link != software ]]; then
    stop_model
    [[ $MODEL_END ]] && result nic FAIL end "$MODEL_END"
    cp "$DIRECTORY/model.log" "$logs"
    bad=$(cat "$logs"/{,peer-}model.log 2>/dev/null | grep -aE -m1 'panicked at')
    [[ $bad ]] && result nic FAIL panic "$bad"
    # The pingpong programs do not notice it.
    bad=$(cat "$logs"/{,peer-}model.log 2>/dev/null | grep -a -m1 'lost access')
    [[ $bad ]] && result nic FAIL memory "$bad"
  fi
}

# boot_shell KERNEL LINK: a guest whose console is this terminal.
boot_shell() {
  local DIRECTORY MODEL='' MODEL_END MODEL_IN MODEL_OUT ARGUMENTS
  DIRECTORY=$(mktemp -d)
  if [[ $2 != software ]]; then
    start_model "$2" 1 "$DIRECTORY" || return 1
    echo "lab: the virtual NIC's log is $DIRECTORY/model.log; ask it with: echo help >$DIRECTORY/model.in; head -n 1 $DIRECTORY/model.out" >&2
  fi
  guest_arguments "$1" "$2" 1 "quiet lab.shell" "$(image_of "$1" "$2")"
  qemu "${ARGUMENTS[@]}" -no-reboot -chardev stdio,id=console,signal=off -serial chardev:console
  stop_model
  [[ $MODEL_END ]] && echo "lab: $MODEL_END" >&2
  rm -rf "$DIRECTORY"
}
