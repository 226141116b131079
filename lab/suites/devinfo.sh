# about: what rdma-core's programs say about the NIC
# link: ethernet infiniband software
# seconds: 90
# shellcheck shell=bash

nic_up || exit 0
# says NAME PATTERN FILE: the file has a line like this.
says() {
  if grep -Eq "$2" "$3"; then pass "$1"; else fail "$1" "no line like $2"; fi
}

check devices 10 ibv_devices
check devinfo 20 ibv_devinfo -v -d "$NIC"
cp /tmp/check.out /tmp/devinfo
says state 'state:[[:space:]]*PORT_ACTIVE \(4\)' /tmp/devinfo
says transport 'transport:[[:space:]]*InfiniBand \(0\)' /tmp/devinfo
says node-guid 'node_guid:[[:space:]]*[0-9a-f:]*[1-9a-f]' /tmp/devinfo
case $LINK in
  infiniband)
    says link-layer 'link_layer:[[:space:]]*InfiniBand' /tmp/devinfo
    says lid 'port_lid:[[:space:]]*[1-9]' /tmp/devinfo
    ;;
  *)
    says link-layer 'link_layer:[[:space:]]*Ethernet' /tmp/devinfo
    says gid 'GID\[.*::ffff:10\.9\.0\.1, RoCE v2' /tmp/devinfo
    ;;
esac
check list 10 ibv_devinfo -l
check rdma-dev 10 rdma -d dev show "$NIC"
check rdma-link 10 rdma -d link show "$NIC/1"
check rdma-statistic 10 rdma statistic show link "$NIC/1"
check rdma-system 10 rdma system show
[ "$LINK" = infiniband ] && check ibstat 10 ibstat "$NIC"
exit 0
