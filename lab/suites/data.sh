# about: random bytes by every operation, each byte compared
# link: ethernet infiniband software
# seconds: 180
# shellcheck shell=bash

nic_up || exit 0
# shellcheck disable=SC2086 # maybe no word
python3 /lab/data.py "$NIC" $GID
