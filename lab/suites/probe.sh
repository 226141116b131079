# about: the stock drivers find the NIC and bring its port up, with nothing to say against it
# link: ethernet infiniband
# seconds: 120
# order: 1
# shellcheck shell=bash

device=$(grep -l 0x15b3 /sys/bus/pci/devices/*/vendor | head -n 1)
device=${device%/vendor}
if [ "$device" ]; then pass pci-function; else fail pci-function "no function of this vendor"; fi
check mlx5_core 60 modprobe mlx5_core
check mlx5_ib 60 modprobe mlx5_ib
check bound 5 test -e "$device/driver/module/parameters/prof_sel"
nic_up && pass port-active
check uverbs 5 test -c "/dev/infiniband/uverbs0"
check firmware-version 5 grep -E '^[0-9]+\.[0-9]+\.[0-9]+$' "/sys/class/infiniband/$NIC/fw_ver"
check board 5 grep . "/sys/class/infiniband/$NIC/board_id"
check rate 5 grep . "/sys/class/infiniband/$NIC/ports/1/rate"
[ -z "$NETDEV" ] || check ethtool 10 ethtool "$NETDEV"
[ -z "$NETDEV" ] || check ethtool-driver 10 ethtool -i "$NETDEV"
[ -z "$NETDEV" ] || check ethtool-counters 10 ethtool -S "$NETDEV"
check lspci 10 lspci -vv -s "${device##*/}"
