# about: the NIC is taken out under traffic, and comes back
# link: ethernet infiniband
# seconds: 300
# boot: own
# refuses: yes
# shellcheck shell=bash

nic_up || exit 0
unbuffered ibv_asyncwatch -d "$NIC" >/tmp/events 2>&1 &
wait_for 20 grep -q . /tmp/events
traffic "" --op write --size 64 --timeout $((15 * SLOW)) || exit 0
device=$(readlink -f "/sys/class/infiniband/$NIC/device")
# What the hot-plug slot's driver does when its button is pressed. Not pressed itself: QEMU 11.1 ends with an
# assertion of its own when a function of vfio-user is pulled out.
echo 1 >"$device/remove" &
gone() { [ ! -e /sys/class/infiniband/mlx5_0 ] && [ ! -e "$device" ]; }
if wait_for 90 gone; then pass gone; else fail gone "the device is still there"; fi
if wait_for 20 grep -qi 'fatal' /tmp/events; then pass event; else fail event "no event of a fatal error: $(tail -n 1 /tmp/events)"; fi
if wait_for 60 grep -q '^error: ' /tmp/traffic.out; then pass program-ends; else fail program-ends "$(tail -n 1 /tmp/traffic.out)"; fi
wait "$PROGRAM"
status=$?
if [ $status = 1 ]; then pass program-status; else fail program-status "it ended with status $status"; fi
cat /tmp/traffic.out
if [ "$(rdma -d resource show qp | grep -c .)" = 0 ]; then pass nothing-left; else fail nothing-left "$(rdma resource show)"; fi
check rescan 60 sh -c "echo 1 >/sys/bus/pci/rescan"
nic_up && pingpong traffic-after ibv_rc_pingpong -c -n 100
