# about: doorbell programs are killed in the middle of their traffic
# link: ethernet infiniband
# seconds: 300
# order: 61
# refuses: yes
# shellcheck shell=bash

nic_up || exit 0
check before 60 doorbell pingpong --device "$NIC" --op write --size 64 --iterations 10
resources=$(resources) objects=$(nic_objects)

# pinned: how many pages of memory the kernel holds for NICs. The first line sums up what each processor counted.
pinned() {
  cat /proc/sys/vm/stat_refresh
  awk '/^nr_foll_pin_acquired / { all += $2 } /^nr_foll_pin_released / { all -= $2 } END { print all }' /proc/vmstat
}
# free_memory: what programs could have, in KiB.
free_memory() {
  awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}
pinned=$(pinned)
unpinned() { [ "$(pinned)" = "$pinned" ]; }

for options in "--op write --size 64" "--op send --size 65536" "--op read --size 1M" "--op write --size 64 --doorbell blueflame" \
  "--op send --size 64 --events" "--op fetch-add"; do
  name=-$(echo "${options//--/}" | tr -s ' ' '-')
  # shellcheck disable=SC2086 # several words
  traffic "$name" $options || continue
  held=$(pinned)
  kill -9 "$PROGRAM"
  wait "$PROGRAM" 2>/dev/null
  if wait_for 10 all_is_back "$resources" "$objects"; then
    pass "gone$name"
  else
    fail "gone$name" "was $resources, $objects; is $(resources), $(nic_objects)"
  fi
  # A program that held none would say nothing about what is left.
  if [ "$held" -le "$pinned" ]; then
    fail "pages$name" "the program held no page: $held, and $pinned before it"
  elif wait_for 10 unpinned; then
    pass "pages$name"
  else
    fail "pages$name" "$pinned pages were held before, $held by the program, too, and $(pinned) after it"
  fi
done

# What 4 such programs hold is many times what is allowed to be missing.
free=$(free_memory) taken=0
for turn in 1 2 3 4; do
  traffic "-large-$turn" --op write --size 16M || continue
  now=$(free_memory)
  [ $((free - now)) -le $taken ] || taken=$((free - now))
  kill -9 "$PROGRAM"
  wait "$PROGRAM" 2>/dev/null
done
back() { [ $((free - $(free_memory))) -lt 32768 ]; }
if [ $taken -lt 40000 ]; then
  fail memory "a program takes $taken KiB only"
elif wait_for 10 back; then
  pass memory
else
  fail memory "$free KiB were free, and $(free_memory) KiB are"
fi
check after 60 doorbell pingpong --device "$NIC" --op write --size 64 --iterations 10
