# about: two virtual BCM57608 with bnxt_en and bnxt_re: frames, TCP and RDMA from one to the other
# link: netxtreme
# seconds: 900
# boot: own
# nics: 2
# shellcheck shell=bash

# An interface that moves to another network goes down, and so does one whose cable is pulled out.
expect_log 'bnxt_en .*NIC Link is Down'
. /lab/second_nic.sh
nic_up || exit 0
check devinfo 20 ibv_devinfo -v -d "$NIC"
check rdma-link 10 rdma -d link show "$NIC/1"
for program in rc ud srq; do
  pingpong "$program-pingpong-alone" ibv_${program}_pingpong -c
done

second_up bnxt_re1 || exit 0
frames_across
# The driver reads what the NIC has counted each second.
for way in tx rx; do
  check "statistics-$way" 20 wait_for 15 sh -c "[ \$(cat /sys/class/net/$NETDEV/statistics/${way}_packets) -gt 200 ]"
done
for program in rc ud srq; do
  across "$program-pingpong" g ibv_${program}_pingpong -c
  across "$program-pingpong-events" g ibv_${program}_pingpong -c -e -n 300
done
across rc-1-byte g ibv_rc_pingpong -c -s 1
across rc-1000003-bytes g ibv_rc_pingpong -c -s 1000003 -n 50
across rc-mtu-256 g ibv_rc_pingpong -c -m 256 -s 65536 -n 100
across rc-1-receive g ibv_rc_pingpong -c -r 1 -n 200
for operation in write read send; do
  across "$operation-lat" x ib_${operation}_lat -F -n 1000
  across "$operation-bw" x ib_${operation}_bw -F -n 500
  across "$operation-all-sizes" x ib_${operation}_bw -F -a -n 5
  across "$operation-both-ways" x ib_${operation}_bw -F -b -n 300
  across "$operation-4-queue-pairs" x ib_${operation}_bw -F -q 4 -n 200
done
across send-lat-UD x ib_send_lat -F -c UD -n 1000
across send-events x ib_send_bw -F -e -n 300
across write-inline x ib_write_lat -F -I 64 -s 64 -n 500
across send-inline x ib_send_lat -F -I 96 -s 96 -n 500
across send-shared-receive x ib_send_bw -F -r 64 --use-srq -n 300
across write-moderated x ib_write_bw -F -Q 50 -n 500
across read-1-outstanding x ib_read_bw -F -o 1 -n 300
pair rping 60 "rping -s -V -a 10.9.0.1 -C 20 -S 30000" "$PEER rping -c -V -a 10.9.0.1 -C 20 -S 30000"

ask model link down
check link-down 20 wait_for 15 port_is DOWN
ask model link up
check link-up 20 wait_for 15 port_is ACTIVE

check unload 30 nic_down
check load-again 60 nic_up
pingpong after-load ibv_rc_pingpong -c
