# about: the port goes down and comes back, with its events, and carries traffic after it
# link: ethernet infiniband
# seconds: 180
# shellcheck shell=bash

nic_up || exit 0
unbuffered ibv_asyncwatch -d "$NIC" >/tmp/events 2>&1 &
watcher=$!
wait_for 10 grep -q . /tmp/events
# seen EVENT TIMES
seen() {
  [ "$(grep -ci "$1" /tmp/events)" -ge "$2" ]
}
for round in 1 2 3; do
  answer=$(ask model link down)
  [ "$answer" = ok ] || fail "down-$round" "the host says $answer"
  if wait_for 20 port_is DOWN; then pass "down-$round"; else fail "down-$round" "the port stays ACTIVE"; fi
  [ -z "$NETDEV" ] || check "carrier-lost-$round" 10 wait_for 10 grep -q 0 "/sys/class/net/$NETDEV/carrier"
  ask model link up
  if wait_for 20 port_is ACTIVE; then pass "up-$round"; else fail "up-$round" "the port stays DOWN"; fi
  [ -z "$NETDEV" ] || check "carrier-back-$round" 10 wait_for 10 grep -q 1 "/sys/class/net/$NETDEV/carrier"
done
wait_for 5 seen PORT_ACTIVE 3
kill $watcher
cat /tmp/events
for event in PORT_ERR PORT_ACTIVE; do
  if seen $event 3; then pass "event-$event"; else fail "event-$event" "not seen 3 times"; fi
done
nic_up && pingpong traffic-after ibv_rc_pingpong -c -n 200
