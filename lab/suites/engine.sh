# about: doorbell's own tests, on the stock kernel's verbs file
# link: ethernet infiniband
# seconds: 900
# order: 40
# refuses: yes
# programs: engine fork
# shellcheck shell=bash

nic_up || exit 0
ulimit -l unlimited
export DOORBELL_DEVICE=$NIC RUST_BACKTRACE=0
# Each test in a process of its own: one that hangs or crashes takes no other with it.
for program in engine fork; do
  for test in $("$program" --list --format terse | sed -n 's/: test$//p'); do
    [[ $test == "$LAB_TESTS"* ]] || continue
    reason=$(sed -n "s/^$test //p" /lab/suites/engine.skip)
    if [ "$reason" ]; then
      skip "$test" "$reason"
      continue
    fi
    echo "----- $program $test"
    timeout -k 5 $((120 * SLOW)) "$program" --exact "$test" --nocapture >/tmp/test.out 2>&1
    status=$?
    cat /tmp/test.out
    # What a machine lacks is said by the test.
    reason=$(sed -n 's/^skipped: //p' /tmp/test.out | head -n 1)
    case $status in
      0) if [ "$reason" ]; then skip "$test" "$reason"; else pass "$test"; fi ;;
      124 | 137 | 143) fail "$test" "not done after $((120 * SLOW)) s" ;;
      *) fail "$test" "exit status $status: $(grep -A 1 'panicked at' /tmp/test.out | sed -n 2p)" ;;
    esac
  done
done
