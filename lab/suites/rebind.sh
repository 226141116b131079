# about: the driver is bound and unbound, and the function is removed and found again, by hand
# link: ethernet infiniband
# seconds: 180
# order: 91
# shellcheck shell=bash

nic_up || exit 0
device=$(readlink -f "/sys/class/infiniband/$NIC/device")
name=${device##*/}
driver=/sys/bus/pci/drivers/mlx5_core
check unbind 30 sh -c "echo $name >$driver/unbind"
if [ -e /sys/class/infiniband/mlx5_0 ]; then fail unbound "the device is still there"; else pass unbound; fi
check bind 60 sh -c "echo $name >$driver/bind"
nic_up && pingpong traffic-after-bind ibv_rc_pingpong -c -n 100
check function-reset 60 sh -c "echo $name >$driver/unbind && echo 1 >$device/reset && echo $name >$driver/bind"
nic_up && pingpong traffic-after-reset ibv_rc_pingpong -c -n 100
check remove 60 sh -c "echo 1 >$device/remove"
check rescan 60 sh -c "echo 1 >/sys/bus/pci/rescan"
nic_up && pingpong traffic-after-rescan ibv_rc_pingpong -c -n 100
