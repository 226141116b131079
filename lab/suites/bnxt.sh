# about: two virtual BCM57608 with bnxt_en and bnxt_re: frames, TCP and RDMA from one to the other
# link: netxtreme
# seconds: 900
# boot: own
# nics: 2
# shellcheck shell=bash

# An interface that moves to another network goes down, and so does one whose cable is pulled out.
expect_log 'bnxt_en .*NIC Link is Down'
nic_up || exit 0
other=bnxt_re1
wait_for 20 test -e /sys/class/infiniband/$other/ports/1/state || {
  fail second-nic "no RDMA device $other"
  exit 0
}
check devinfo 20 ibv_devinfo -v -d "$NIC"
check rdma-link 10 rdma -d link show "$NIC/1"
for program in rc ud srq; do
  pingpong "$program-pingpong-alone" ibv_${program}_pingpong -c
done

# The second interface has a network of its own, so that nothing takes a short cut.
# shellcheck disable=SC2012 # an interface's name
second=$(ls /sys/class/infiniband/$other/device/net)
ip netns add peer
ip link set "$second" netns peer
ip -n peer address add 10.9.0.2/24 dev "$second"
ip -n peer link set "$second" up
ip -n peer link set lo up
peer="ip netns exec peer"
# shellcheck disable=SC2086 # a command and its arguments
check carrier 20 wait_for 15 $peer ping -c 1 -W 1 10.9.0.1
check ping 30 ping -c 10 -i 0.2 10.9.0.2
check ping-back 30 ip netns exec peer ping -c 10 -i 0.2 10.9.0.1
check ping-1400-bytes 30 ping -c 5 -i 0.2 -s 1400 10.9.0.2
check ping-fragments 30 ping -c 5 -i 0.2 -s 20000 10.9.0.2
head -c 5000000 /dev/urandom >/tmp/sent
# nc ends with its input.
mkfifo /tmp/open
exec 9<>/tmp/open
# shellcheck disable=SC2086 # a command and its arguments
timeout 60 $peer nc -l -p 5000 >/tmp/received <&9 &
# shellcheck disable=SC2086 # a command and its arguments
wait_for 5 $peer grep -q ':1388 .* 0A ' /proc/net/tcp /proc/net/tcp6
timeout 60 nc 10.9.0.2 5000 </tmp/sent >/dev/null
wait $!
check tcp 10 cmp /tmp/sent /tmp/received

find_gid
# second_gid: sets SECOND_GID.
second_gid() {
  local gid
  for gid in /sys/class/infiniband/$other/ports/1/gids/*; do
    grep -q '^0000:0000:0000:0000:0000:ffff:0a09:0002$' "$gid" || continue
    SECOND_GID=${gid##*/}
    grep -q 'RoCE v2' "/sys/class/infiniband/$other/ports/1/gid_attrs/types/$SECOND_GID" 2>/dev/null && return 0
  done
  return 1
}
check second-gid 20 wait_for 15 second_gid

# across NAME LETTER PROGRAM OPTION...: from one NIC to the other. LETTER is the option that selects a GID.
across() {
  local name="$1" letter="$2"
  shift 2
  pair "$name" 60 "$* -d $NIC -$letter $GID" "$peer $* -d $other -$letter $SECOND_GID 10.9.0.1"
}

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
pair rping 60 "rping -s -V -a 10.9.0.1 -C 20 -S 30000" "$peer rping -c -V -a 10.9.0.1 -C 20 -S 30000"

ask model link down
check link-down 20 wait_for 15 port_is DOWN
ask model link up
check link-up 20 wait_for 15 port_is ACTIVE

check unload 30 nic_down
check load-again 60 nic_up
pingpong after-load ibv_rc_pingpong -c
