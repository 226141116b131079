# about: the firmware refuses each command of a doorbell program in turn
# link: ethernet infiniband
# seconds: 600
# order: 60
# refuses: yes
# shellcheck shell=bash

nic_up || exit 0
# The kernel says that a command was refused, and which.
expect_log 'mlx5_cmd_out_err|infiniband mlx5_0: .* failed|invalid mtu'

scenario() {
  timeout -k 5 60 doorbell pingpong --device "$NIC" --op send,read --size 64 --iterations 2 --warmup 0 --events
}
# The kernel makes some objects of its own for a first program, and keeps them.
check unrefused 60 scenario
resources=$(resources) objects=$(nic_objects)
ask model given >/dev/null
scenario >/dev/null 2>&1
given=$(ask model given)
echo "the program's commands: $given"
case $given in *CREATE_QP=2*) pass commands ;; *) fail commands "no two queue pairs: $given" ;; esac

for command in $given; do
  for nth in $(seq "${command#*=}"); do
    name=${command%=*}-$nth
    if [ "${command%=*}" = DESTROY_QP ]; then
      # tests/virtual_refusals.rs refuses it where the kernel is virtual, too.
      skip "$name" "the stock kernel warns, and keeps a queue pair whose destruction was refused once"
      continue
    fi
    ask model refuse "${command%=*}" "$nth" >/dev/null
    scenario >/tmp/scenario.out 2>&1
    status=$?
    pending=$(ask model pending)
    echo "----- $name: status $status: $(grep error: /tmp/scenario.out)"
    case $status-$pending-$name in
      *-yes-*) skip "$name" "the program did not come to it this time" ;;
      # What only asks for statistics may be refused without harm, and an end that the kernel tries again.
      0-*-QUERY_* | 0-*-ACCESS_REG-* | 0-*-DEALLOC_* | 0-*-DESTROY_* | 0-*-2ERR_* | 0-*-2RST_*) pass "$name" ;;
      0-*) fail "$name" "the program went on as if nothing had been refused" ;;
      1-*)
        # Either the call that was refused, or that its answer cannot be.
        if grep -q "^error: .*the \(answer to\|kernel refused\) [A-Z]" /tmp/scenario.out; then
          pass "$name"
        else
          fail "$name" "no clear error: $(tail -n 1 /tmp/scenario.out)"
        fi
        ;;
      *) fail "$name" "exit status $status: $(tail -n 1 /tmp/scenario.out)" ;;
    esac
    # The kernel does not ask again: what the NIC has not taken back is lost to it.
    case $name in DEALLOC_UAR-*) objects=$(nic_objects) ;; esac
    wait_for 5 all_is_back "$resources" "$objects" ||
      fail "$name-left" "was $resources, $objects; is $(resources), $(nic_objects)"
  done
done
# Nothing is refused any more.
ask model refuse NOP 1
check unrefused-again 60 scenario
