# about: rdma-core's pingpong programs, that check what they receive
# link: ethernet infiniband software
# seconds: 400
# shellcheck shell=bash

nic_up || exit 0
pingpong rc ibv_rc_pingpong -c
pingpong rc-events ibv_rc_pingpong -c -e -n 300
pingpong rc-1-byte ibv_rc_pingpong -c -s 1
pingpong rc-1000003-bytes ibv_rc_pingpong -c -s 1000003 -n 50
pingpong rc-mtu-256 ibv_rc_pingpong -c -m 256 -s 65536 -n 100
pingpong rc-1-receive ibv_rc_pingpong -c -r 1 -n 200
pingpong rc-new-post ibv_rc_pingpong -c -N
pingpong rc-timestamps ibv_rc_pingpong -c -t -n 300
pingpong uc ibv_uc_pingpong -c
pingpong uc-events ibv_uc_pingpong -c -e -n 300
pingpong uc-65536-bytes ibv_uc_pingpong -c -s 65536 -n 200
pingpong ud ibv_ud_pingpong -c
pingpong ud-events ibv_ud_pingpong -c -e -n 300
pingpong srq ibv_srq_pingpong -c
pingpong srq-events ibv_srq_pingpong -c -e -n 300
pingpong srq-1-queue ibv_srq_pingpong -c -q 1
pingpong xsrq ibv_xsrq_pingpong
