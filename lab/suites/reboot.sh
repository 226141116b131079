# about: the guest restarts, twice, with the drivers loaded
# link: ethernet infiniband
# seconds: 180
# boot: own
# reboots: yes
# shellcheck shell=bash

nic_up && pingpong "traffic-$BOOTS" ibv_rc_pingpong -c -n 100
if [ "$BOOTS" -lt 3 ]; then
  # The drivers shut the NIC down on the way.
  reboot -f
  sleep 60
  fail reboot "the guest did not restart"
else
  pass reboot
fi
