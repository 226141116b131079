# about: stock programs, and doorbell, on the virtual NIC against the rxe of another guest
# link: ethernet netxtreme
# peer: software
# seconds: 2400
# boot: own
# shellcheck shell=bash

. /lab/other_guest.sh
nic_up && other_guest_up || exit 0
programs_across
[ "$LINK" = netxtreme ] || doorbell_across
