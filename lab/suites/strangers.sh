# about: doorbell programs with libmlx5's: each as the server and as the client
# link: ethernet infiniband
# seconds: 900
# order: 45
# shellcheck shell=bash

nic_up || exit 0
ours="doorbell pingpong --device $NIC --timeout 140 --with ibv_rc_pingpong"
theirs="ibv_rc_pingpong -c -d $NIC $(gid_option g)"

# both NAME OUR-OPTIONS THEIR-OPTIONS
both() {
  pair "$1-server" 150 "$ours $2" "$theirs $3 127.0.0.1"
  # It says so, and exits with 0, when bytes are not what they were.
  if grep -q 'invalid data' /tmp/client.out; then fail "$1-server-bytes" "$(grep -m 1 'invalid data' /tmp/client.out)"; fi
  pair "$1-client" 150 "$theirs $3" "$ours $2 127.0.0.1"
  if grep -q 'invalid data' /tmp/server.out; then fail "$1-client-bytes" "$(grep -m 1 'invalid data' /tmp/server.out)"; fi
}
# combining: whether the kernel has found that the NIC combines writes. Its test has to be over in 100 ms, which a
# busy host may not manage.
combining() {
  doorbell pingpong --device "$NIC" --doorbell blueflame --size 64 --iterations 1 >/tmp/combining 2>&1 ||
    ! grep -q 'UAR_OBJ_ALLOC: not supported' /tmp/combining || {
    skip "blueflame" "the kernel has found that this machine combines no writes"
    return 1
  }
}
both default "" ""
both events "--events --iterations 300" "-e -n 300"
combining && both blueflame "--doorbell blueflame --iterations 300" "-n 300"
both 1-byte "--size 1 --iterations 300" "-s 1 -n 300"
both 1000003-bytes "--size 1000003 --iterations 10" "-s 1000003 -n 10"
both mtu-256 "--mtu 256 --size 65536 --iterations 50" "-m 256 -s 65536 -n 50"

# Writes, reads and atomics, which that program has not: with an end on pyverbs, that compares every byte, too.
played="--op all --sizes 1,64,4096,100001 --iterations 3 --warmup 0 --timeout 140"
for options in "" "--events" "--doorbell blueflame"; do
  case $options in *blueflame) combining || continue ;; esac
  pair "all-operations${options// /}" 150 "python3 /lab/peer.py $NIC 18519 $GID" \
    "doorbell pingpong --device $NIC --connect 127.0.0.1 $played $options"
done
