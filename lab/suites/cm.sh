# about: the RDMA connection manager, and data that rping compares
# link: ethernet software
# seconds: 240
# shellcheck shell=bash

nic_up || exit 0
for size in 64 4096 60000; do
  pair "rping-$size" 60 "rping -s -v -V -a 10.9.0.1 -C 5 -S $size" "rping -c -v -V -a 10.9.0.1 -C 5 -S $size"
done
pair rping-again 60 "rping -s -V -a 10.9.0.1 -C 100 -S 1000" "rping -c -V -a 10.9.0.1 -C 100 -S 1000"
pair ucmatose 60 "ucmatose -C 10 -S 100" "ucmatose -C 10 -S 100 -s 10.9.0.1"
pair udaddy 60 "udaddy -C 10" "udaddy -C 10 -s 10.9.0.1"
pair write-bw 60 "ib_write_bw -F -R -n 200 -d $NIC" "ib_write_bw -F -R -n 200 -d $NIC 10.9.0.1"
pair rstream 60 "rstream -S 4096 -C 100" "rstream -S 4096 -C 100 -s 10.9.0.1"
