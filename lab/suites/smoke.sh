# about: the guest itself works, on the kernel's software NIC (rxe); no virtual NIC
# link: software
# seconds: 120
# shellcheck shell=bash

nic_up && pass nic-up
check devinfo 20 ibv_devinfo -v -d rxe0
check rdma-res 10 rdma resource show
pingpong rc ibv_rc_pingpong -n 100 -c
check pyverbs 60 python3 -c 'import pyverbs.device as d; c = d.Context(name="rxe0"); print(c.query_device())'
