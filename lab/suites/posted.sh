# about: the entries that stock libbnxt_re writes are those that doorbell is compared with
# link: netxtreme
# seconds: 300
# refuses: yes
# shellcheck shell=bash

# What is posted comes to a bad end: its keys and addresses are made up.
nic_up || exit 0
check post 240 sh -c "python3 /lab/posted.py $NIC $GID >/tmp/posted.txt"
sed 's/^/POSTED /' /tmp/posted.txt
check as-committed 10 diff /lab/posted_bnxt.txt /tmp/posted.txt
