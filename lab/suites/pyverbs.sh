# about: rdma-core's own tests, through its Python binding
# link: ethernet infiniband software
# seconds: 1500
# boot: own
# refuses: yes
# shellcheck shell=bash

nic_up || exit 0
mkdir -p /lab/pyverbs
ln -sfn /usr/lib/pyverbs-tests /lab/pyverbs/tests
# shellcheck disable=SC2086,SC2046 # two words
python3 /lab/each_test.py $((60 * SLOW)) "/lab/suites/pyverbs.known" --dev "$NIC" --port 1 ${GID:+--gid $GID}
# Whether something was lost on the way, or was late.
grep . "/sys/class/infiniband/$NIC/ports/1/hw_counters"/* | sed 's,.*/,counter: ,'
