# Builds doorbell's own programs, which run in the guest as they run on this machine.
# Sourced by lab/run, which sets ROOT and DOORBELL.
# shellcheck shell=bash

# The library's test programs that the guest runs (tests/README.md).
readonly TEST_PROGRAMS=(engine fork)

# build_programs DIRECTORY: puts the programs there, without what only a debugger reads. They are linked to
# the C library of this machine, Debian 12, which is as old as the oldest guest's.
build_programs() {
  local directory=$1 program arguments=() built
  for program in "${TEST_PROGRAMS[@]}"; do
    arguments+=(--test "$program")
  done
  # Cargo says where each program is: its name has a number that changes.
  built=$(cd "$ROOT" && cargo test -q -p doorbell "${arguments[@]}" --no-run --message-format=json) || return 1
  mkdir -p "$directory"
  for program in "${TEST_PROGRAMS[@]}"; do
    strip -o "$directory/$program" \
      "$(sed -n 's,.*"executable":"\([^"]*/'"$program"'-[0-9a-f]*\)".*,\1,p' <<<"$built")" || return 1
  done
  (cd "$ROOT" && cargo build -q -p doorbell-shim) || return 1
  strip -o "$directory/libdoorbell_shim.so" "$ROOT/target/debug/libdoorbell_shim.so" || return 1
  strip -o "$directory/doorbell" "$DOORBELL"
}
