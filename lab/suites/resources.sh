# about: the kernel's account of RDMA objects, before, while and after a program has some
# link: ethernet infiniband software
# seconds: 90
# shellcheck shell=bash

nic_up || exit 0
check summary 10 rdma resource show
# The kernel makes some objects of its own for a program's first region, and keeps them.
pingpong first ibv_rc_pingpong -c -n 10
before=$(resources)
# A server that waits for its client has all that it needs: a context, a domain, a region, two queues.
# shellcheck disable=SC2046 # two words
ibv_rc_pingpong -d "$NIC" $(gid_option g) &
wait_for 20 sh -c "rdma resource show qp | grep -q rc_pingpong" || fail qp "no queue pair of the program"
for kind in qp cq mr pd cm_id ctx; do
  check "show-$kind" 10 rdma -d resource show "$kind"
  case $kind in
    qp | cq | mr | pd | ctx)
      if grep -q ibv_rc_pingpong /tmp/check.out; then pass "owner-of-$kind"; else fail "owner-of-$kind" "not shown"; fi
      ;;
  esac
done
kill -9 $!
gone() { [ "$(resources)" = "$before" ]; }
if wait_for 10 gone; then pass gone; else fail gone "was $before, is $(resources)"; fi
