# about: the drivers are unloaded and loaded again, five times
# link: ethernet infiniband
# seconds: 240
# order: 90
# shellcheck shell=bash

nic_up || exit 0
for round in 1 2 3 4 5; do
  check "unload-$round" 60 nic_down
  if [ -e /sys/class/infiniband/mlx5_0 ]; then fail "gone-$round" "the device is still there"; else pass "gone-$round"; fi
  nic_up && pingpong "traffic-$round" ibv_rc_pingpong -c -n 100
done
# Only the RDMA driver, as a distribution's update does it.
check unload-mlx5_ib 60 rmmod mlx5_ib
nic_up && pingpong traffic-after-mlx5_ib ibv_rc_pingpong -c -n 100
