# about: doorbell programs with libmlx5's: each as the server and as the client
# link: ethernet infiniband
# seconds: 400
# order: 45
# shellcheck shell=bash

nic_up || exit 0
ours="doorbell pingpong --device $NIC --timeout 50 --with ibv_rc_pingpong"
theirs="ibv_rc_pingpong -c -d $NIC $(gid_option g)"

# both NAME OUR-OPTIONS THEIR-OPTIONS
both() {
  pair "$1-server" 60 "$ours $2" "$theirs $3 127.0.0.1"
  # It says so, and exits with 0, when bytes are not what they were.
  if grep -q 'invalid data' /tmp/client.out; then fail "$1-server-bytes" "$(grep -m 1 'invalid data' /tmp/client.out)"; fi
  pair "$1-client" 60 "$theirs $3" "$ours $2 127.0.0.1"
  if grep -q 'invalid data' /tmp/server.out; then fail "$1-client-bytes" "$(grep -m 1 'invalid data' /tmp/server.out)"; fi
}
both default "" ""
both events "--events --iterations 300" "-e -n 300"
both blueflame "--doorbell blueflame --iterations 300" "-n 300"
both 1-byte "--size 1 --iterations 300" "-s 1 -n 300"
both 1000003-bytes "--size 1000003 --iterations 20" "-s 1000003 -n 20"
both mtu-256 "--mtu 256 --size 65536 --iterations 50" "-m 256 -s 65536 -n 50"
