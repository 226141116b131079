# Builds doorbell's own programs: those that run in the guest run as they run on this machine.
# Sourced by lab/run, which sets ROOT.
# shellcheck shell=bash

# build_programs DIRECTORY SUITE...: puts the programs there, without what only a debugger reads, and sets DOORBELL,
# unless it is set; both are then copies there. With the library's test programs (tests/README.md) that the suites
# run. They are linked to the C library of this machine, Debian 12, which is as old as the oldest guest's.
build_programs() {
  local directory=$1 suite program programs=() arguments=() built
  shift
  for suite; do
    for program in $(header "$suite" programs); do
      programs+=("$program") arguments+=(--test "$program")
    done
  done
  # All at once: each build by itself would want the libraries with features of its own.
  built=$(cd "$ROOT" && cargo build -q -p doorbell -p doorbell-cli -p doorbell-shim --lib --bin doorbell \
    "${arguments[@]}" --message-format=json) || return 1
  mkdir -p "$directory"
  for program in "${programs[@]}"; do
    # Cargo says where each program is: its name has a number that changes.
    strip -o "$directory/$program" \
      "$(sed -n 's,.*"executable":"\([^"]*/'"$program"'-[0-9a-f]*\)".*,\1,p' <<<"$built")" || return 1
  done
  strip -o "$directory/libdoorbell_shim.so" \
    "$(sed -n 's,.*"filenames":\["\([^"]*/libdoorbell_shim.so\)".*,\1,p' <<<"$built")" || return 1
  # A copy, which stays what it is while boot follows boot.
  strip -o "$directory/doorbell" \
    "${DOORBELL:-$(sed -n 's,.*"executable":"\([^"]*/doorbell\)".*,\1,p' <<<"$built")}" || return 1
  DOORBELL=$directory/doorbell
}
