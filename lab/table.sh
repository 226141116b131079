# Prints the results of a run. Sourced by lab/run, which sets LAB and LOGS.
# shellcheck shell=bash disable=SC2153
#
# A file of results has lines "kernel link suite PASS|FAIL|SKIP what why".

# print_table FILE: a table of suites and guests, each failure and skip with its reason, and the sums.
# Returns 1 if something failed or nothing was run.
print_table() {
  awk '
    # Skips with the same reason are told together.
    function tell(word,   key, part, many) {
      for (key in why)
        if (index(key, word) == 1) {
          split(key, part, SUBSEP)
          many = count_of[key] > 1 ? " (" count_of[key] ")" : ""
          printf("%s  %-16s %s/%s%s: %s\n", word, part[2], part[3], names[key], many, why[key]) | "sort"
        }
      close("sort")
    }
    {
      guest = $1 "/" $2
      if (!(guest in guests)) { guests[guest] = ++guest_count; guest_name[guest_count] = guest }
      if (!($3 in suites)) { suites[$3] = ++suite_count; suite_name[suite_count] = $3 }
      ++count[$3, guest, $4]
      ++sum[$4]
      if ($4 == "PASS") next
      reason = ""
      for (i = 6; i <= NF; i++) reason = reason (i > 6 ? " " : "") $i
      key = $4 SUBSEP guest SUBSEP $3 SUBSEP ($4 == "SKIP" ? reason : NR)
      if (++count_of[key] == 1) names[key] = $5
      else if (count_of[key] == 2) names[key] = names[key] ", ..."
      why[key] = reason
    }
    END {
      printf "\n%-12s", "suite"
      for (g = 1; g <= guest_count; g++) printf "  %-20s", guest_name[g]
      print ""
      for (s = 1; s <= suite_count; s++) {
        printf "%-12s", suite_name[s]
        for (g = 1; g <= guest_count; g++) {
          passed = count[suite_name[s], guest_name[g], "PASS"] + 0
          failed = count[suite_name[s], guest_name[g], "FAIL"] + 0
          skipped = count[suite_name[s], guest_name[g], "SKIP"] + 0
          cell = passed + failed + skipped ? passed " ok" : "-"
          if (failed) cell = cell " " failed " FAILED"
          if (skipped) cell = cell " " skipped " skip"
          printf "  %-20s", cell
        }
        print ""
      }
      print ""
      tell("SKIP")
      tell("FAIL")
      printf "\n%d passed, %d failed, %d skipped\n", sum["PASS"], sum["FAIL"], sum["SKIP"]
      exit sum["FAIL"] > 0 || sum["PASS"] == 0
    }' "$1"
}

# print_tests FILE SUITE: each test of a suite, a line, with what became of it in each guest, and the reason of
# its first skip or failure.
print_tests() {
  awk -v suite="$2" '
    $3 == suite && $5 != "kernel-log" {
      guest = $1 "/" $2
      if (!(guest in guests)) { guests[guest] = ++guest_count; guest_name[guest_count] = guest }
      if (!($5 in seen)) { seen[$5] = 1; name[++tests] = $5 }
      became[$5, guest] = tolower($4)
      if (!($5 in reason) && NF > 5) {
        line = ""
        for (i = 6; i <= NF; i++) line = line " " $i
        reason[$5] = line
      }
    }
    END {
      printf "%-92s", "# test"
      for (g = 1; g <= guest_count; g++) printf " %-14s", guest_name[g]
      print " reason"
      for (t = 1; t <= tests; t++) {
        printf "%-92s", name[t]
        for (g = 1; g <= guest_count; g++) {
          state = became[name[t], guest_name[g]]
          printf " %-14s", state == "" ? "-" : state
        }
        print reason[name[t]]
      }
    }' "$1" | sed 's/ *$//' | LC_ALL=C sort
}

# compare_tests FILE SUITE: adds a failure to the results for each test that the committed table says passed,
# and that was skipped (a capability that a NIC no longer has makes no test fail) or was not run at all.
compare_tests() {
  local table=$LAB/$2.txt
  [[ -e $table ]] || return 0
  awk -v suite="$2" -v some="${LAB_TESTS:-}" '
    FNR == NR && $1 == "#" { for (i = 3; i < NF; i++) column[i - 1] = $i; next }
    FNR == NR { for (i = 2; i in column; i++) if ($i == "pass") passed[$1, column[i]] = 1; next }
    $3 != suite { next }
    { guest = $1 "/" $2; guests[guest] = 1; seen[$5, guest] = 1 }
    $4 == "SKIP" && ($5, guest) in passed {
      print $1, $2, $3, "FAIL", $5, "passed by the committed table, but skipped:", substr($0, index($0, $5) + length($5) + 1)
    }
    END {
      for (key in passed) {
        split(key, part, SUBSEP)
        if (!(part[2] in guests) || key in seen || some) continue
        split(part[2], guest_part, "/")
        print guest_part[1], guest_part[2], suite, "FAIL", part[1], "passed by the committed table, but not run"
      }
    }' "$table" "$1" >"$1.lost"
  cat "$1.lost" >>"$1"
  rm "$1.lost"
}
