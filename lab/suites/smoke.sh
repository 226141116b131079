# about: the guest itself works, on the kernel's software NIC (rxe); no virtual NIC
# link: none
# seconds: 90
# shellcheck shell=sh

check modules-load 60 modprobe -a ib_uverbs rdma_ucm rdma_rxe
ip link add d0 type dummy
ip address add 10.1.0.1/24 dev d0
ip link set d0 up
check add-rxe 10 rdma link add rxe0 type rxe netdev d0
check devinfo 20 ibv_devinfo -v -d rxe0
check rdma-res 10 rdma res show
# The index of a RoCE v2 identifier: the first of them made from an IPv4 address.
pair rc-pingpong 30 "ibv_rc_pingpong -d rxe0 -g 1 -n 100 -c" "ibv_rc_pingpong -d rxe0 -g 1 -n 100 -c localhost"
check pyverbs 60 python3 -c 'import pyverbs.device as d; c = d.Context(name="rxe0"); print(c.query_device())'
