# about: doorbell takes a BCM57608 from the stock driver, drives it by physical addresses, and gives it back
# link: netxtreme
# seconds: 900
# boot: own
# nics: 2
# shellcheck shell=bash

. /lab/own.sh
# Newer kernels say that they reset a function, at level warning.
expect_log '[0-9a-f:.]+: (resetting|reset done)$'
own none physically
