# Prints the results of a run. Sourced by lab/run.
# shellcheck shell=bash

# print_table FILE: a table of suites and guests, each failure and skip with its reason, and the sums.
# Returns 1 if something failed or nothing was run. FILE has lines "kernel link suite PASS|FAIL|SKIP what why".
print_table() {
  awk '
    {
      guest = $1 "/" $2
      if (!(guest in guests)) { guests[guest] = ++guest_count; guest_name[guest_count] = guest }
      if (!($3 in suites)) { suites[$3] = ++suite_count; suite_name[suite_count] = $3 }
      ++count[$3, guest, $4]
      ++sum[$4]
      why = ""
      for (i = 6; i <= NF; i++) why = why " " $i
      if ($4 != "PASS") lines[$4] = lines[$4] sprintf("%s  %-18s %s/%s:%s\n", $4, guest, $3, $5, why)
    }
    END {
      print ""
      printf "%-14s", "suite"
      for (g = 1; g <= guest_count; g++) printf "  %-18s", guest_name[g]
      print ""
      for (s = 1; s <= suite_count; s++) {
        printf "%-14s", suite_name[s]
        for (g = 1; g <= guest_count; g++) {
          passed = count[suite_name[s], guest_name[g], "PASS"] + 0
          failed = count[suite_name[s], guest_name[g], "FAIL"] + 0
          skipped = count[suite_name[s], guest_name[g], "SKIP"] + 0
          cell = passed + failed + skipped ? passed " ok" : "-"
          if (failed) cell = cell ", " failed " FAILED"
          if (skipped) cell = cell ", " skipped " skip"
          printf "  %-18s", cell
        }
        print ""
      }
      print ""
      printf "%s%s", lines["SKIP"], lines["FAIL"]
      printf "\n%d passed, %d failed, %d skipped\n", sum["PASS"], sum["FAIL"], sum["SKIP"]
      exit sum["FAIL"] > 0 || sum["PASS"] == 0
    }' "$1"
}
