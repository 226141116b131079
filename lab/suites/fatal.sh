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
for options in "" "--events"; do
  # shellcheck disable=SC2086 # maybe no word
  doorbell pingpong --device "$NIC" --op write --size 64 --iterations 100000000 --timeout 15 $options >"/tmp/program$options" 2>&1 &
done
sleep 2
answer=$(ask model fatal)
[ "$answer" = ok ] || fail cause "the host says $answer"
if wait_for 30 grep -qi 'fatal' /tmp/events; then pass event; else fail event "no event of a fatal error: $(tail -n 1 /tmp/events)"; fi
for options in "" "--events"; do
  if wait_for 60 grep -q '^error: ' "/tmp/program$options"; then
    pass "program-ends$options"
    cat "/tmp/program$options"
  else
    fail "program-ends$options" "$(tail -n 1 "/tmp/program$options")"
  fi
done
kill $watcher
pkill doorbell
# The driver resets the device and begins anew.
recovered() { dmesg | grep -q 'health recovery succeeded'; }
if wait_for 120 recovered && nic_up; then pass back; else fail back "the driver has not brought it back"; fi
pingpong traffic-after ibv_rc_pingpong -c -n 100
check doorbell-after 60 doorbell pingpong --device "$NIC" --op write --size 64 --iterations 10
