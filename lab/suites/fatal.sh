# about: the firmware fails under traffic: programs are told, and the driver brings the NIC back
# link: ethernet infiniband
# seconds: 400
# boot: own
# refuses: yes
# shellcheck shell=bash

nic_up || exit 0
# The driver has much to say about it, and does: that it happened, what it found, what it resets.
expect_log 'mlx5_core [0-9a-f:.]*:|infiniband mlx5_0'

unbuffered ibv_asyncwatch -d "$NIC" >/tmp/events 2>&1 &
watcher=$!
wait_for 20 grep -q . /tmp/events
programs=''
for options in "" "--events"; do
  # shellcheck disable=SC2086 # maybe no word
  traffic "$options" --op write --size 64 --timeout $((15 * SLOW)) $options || continue
  mv /tmp/traffic.out "/tmp/program$options"
  programs="$programs $PROGRAM"
done
answer=$(ask model fatal)
[ "$answer" = ok ] || fail cause "the host says $answer"
if wait_for 30 grep -qi 'fatal' /tmp/events; then pass event; else fail event "no event of a fatal error: $(tail -n 1 /tmp/events)"; fi
for options in "" "--events"; do
  cat "/tmp/program$options"
  # Not that it could not begin.
  if wait_for 60 grep -q '^error: ' "/tmp/program$options" && ! grep -q 'the kernel refused' "/tmp/program$options"; then
    pass "program-ends$options"
  else
    fail "program-ends$options" "$(tail -n 1 "/tmp/program$options")"
  fi
done
# shellcheck disable=SC2086 # a process each
kill -9 $watcher $programs 2>/dev/null
# The driver resets the device and begins anew.
recovered() { dmesg | grep -q 'health recovery succeeded'; }
if wait_for 120 recovered && nic_up; then pass back; else fail back "the driver has not brought it back"; fi
pingpong traffic-after ibv_rc_pingpong -c -n 100
check doorbell-after 60 doorbell pingpong --device "$NIC" --op write --size 64 --iterations 10
