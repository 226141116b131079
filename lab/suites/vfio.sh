# about: doorbell takes a BCM57608 from the stock driver, drives it through vfio-pci, and gives it back
# link: netxtreme
# seconds: 900
# boot: own
# nics: 2
# iommu: yes
# shellcheck shell=bash

. /lab/own.sh
# Newer kernels say that they reset a function, at level warning.
expect_log '[0-9a-f:.]+: (resetting|reset done)$'
modprobe vfio-pci || fail vfio-pci "it does not load"
own vfio-pci "through vfio-pci"
