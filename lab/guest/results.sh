# What a suite says its results with. Read by each suite, in the guest.
# shellcheck shell=bash
#
# LINK is what the virtual NIC is: ethernet or infiniband, a ConnectX with such a port; netxtreme, a
# BCM57608; or software. SLOW is how many times as long as said all may take.

# say LINE: a line for the host.
say() {
  echo "$*" >&3
}

# ask REQUEST...: asks the host to do something, and prints its one line of answer. See boot.sh.
ask() {
  local answer
  say "ASK $*"
  read -r answer <&3
  echo "$answer"
}

pass() {
  say "PASS $1"
}

# fail NAME WHY...
fail() {
  say "FAIL $*"
}

# skip NAME WHY...
skip() {
  say "SKIP $*"
}

# expect_log PATTERN: lines like this (grep -E) in the kernel's log are what the suite wants, and no failure.
expect_log() {
  echo "$1" >>/tmp/expected
}

# check NAME SECONDS COMMAND...: passes when the command exits with 0 within that time.
# A function of the shell has no limit but its own.
check() {
  local name="$1" seconds=$(($2 * SLOW)) program status
  shift 2
  echo "----- $name: $*"
  # The output goes to the suite's log; its last line is the reason of a failure.
  # The whole path, or busybox's timeout would prefer busybox's program of that name.
  program=$(type -P "$1")
  if [ "$program" ]; then
    shift
    timeout -k 5 "$seconds" "$program" "$@" >/tmp/check.out 2>&1
  else
    "$@" >/tmp/check.out 2>&1
  fi
  status=$?
  cat /tmp/check.out
  case $status in
    0) pass "$name" ;;
    124 | 137 | 143) fail "$name" "not done after $seconds s: $(tail -n 1 /tmp/check.out)" ;;
    *) fail "$name" "exit status $status: $(tail -n 1 /tmp/check.out)" ;;
  esac
  return $status
}

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local tries=$(($1 * 5 * SLOW))
  shift
  while [ $tries -gt 0 ]; do
    "$@" >/dev/null 2>&1 && return 0
    tries=$((tries - 1))
    sleep 0.2
  done
  return 1
}

# listeners: how many sockets and connection managers wait for a peer.
listeners() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -c ' 0A '
  rdma resource show cm_id 2>/dev/null | grep -c ' LISTEN '
}

# pair NAME SECONDS SERVER-COMMAND CLIENT-COMMAND: runs the two commands, the second when the first listens.
# Passes when both exit with 0. Each command is one string, and one program.
pair() {
  local name="$1" seconds=$(($2 * SLOW)) before server tries=$((100 * SLOW)) client_status server_status
  echo "----- $name: $3 | $4"
  before=$(listeners)
  timeout -k 5 "$seconds" /bin/sh -c "exec $3" >/tmp/server.out 2>&1 &
  server=$!
  while [ $tries -gt 0 ] && [ "$(listeners)" = "$before" ] && kill -0 $server 2>/dev/null; do
    tries=$((tries - 1))
    sleep 0.1
  done
  timeout -k 5 "$seconds" /bin/sh -c "exec $4" >/tmp/client.out 2>&1
  client_status=$?
  [ $client_status = 0 ] || kill $server 2>/dev/null
  wait $server
  server_status=$?
  cat /tmp/server.out /tmp/client.out
  if [ "$client_status$server_status" = 00 ]; then
    pass "$name"
  elif [ $client_status != 0 ]; then
    fail "$name" "client's exit status $client_status: $(tail -n 1 /tmp/client.out)"
  else
    fail "$name" "server's exit status $server_status: $(tail -n 1 /tmp/server.out)"
  fi
}
