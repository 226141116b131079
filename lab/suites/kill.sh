# about: doorbell programs are killed in the middle of their traffic
# link: ethernet infiniband
# seconds: 240
# order: 61
# refuses: yes
# shellcheck shell=bash

nic_up || exit 0
check before 60 doorbell pingpong --device "$NIC" --op write --size 64 --iterations 10
resources=$(resources) objects=$(nic_objects)

# moving: whether the NIC has moved messages since this was asked last.
moving() {
  local now
  now=$(ask model counters)
  [ "$now" != "$counters" ] && counters=$now
}
for options in "--op write --size 64" "--op send --size 65536" "--op read --size 1M" "--op write --size 64 --doorbell blueflame" \
  "--op send --size 64 --events" "--op fetch-add"; do
  name=$(echo "${options//--/}" | tr -s ' ' '-')
  name=-$name
  # shellcheck disable=SC2086 # several words
  doorbell pingpong --device "$NIC" $options --iterations 100000000 >/tmp/killed.out 2>&1 &
  program=$!
  counters=''
  if wait_for 30 sh -c "rdma resource show qp | grep -q ' pid $program '" && moving && wait_for 30 moving; then
    kill -9 $program
  elif grep -q 'UAR_OBJ_ALLOC: not supported' /tmp/killed.out; then
    skip "traffic$name" "the kernel has found that this machine combines no writes"
  else
    fail "traffic$name" "there is none: $(tail -n 1 /tmp/killed.out)"
    kill -9 $program
  fi
  wait $program 2>/dev/null
  if wait_for 10 all_is_back "$resources" "$objects"; then
    pass "gone$name"
  else
    fail "gone$name" "was $resources, $objects; is $(resources), $(nic_objects)"
  fi
done
check after 60 doorbell pingpong --device "$NIC" --op write --size 64 --iterations 10
