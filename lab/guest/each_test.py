"""Runs rdma-core's own tests of pyverbs, each in a process of its own.

A test that crashes, or hangs, then takes no other with it. Says PASS, FAIL or SKIP for each on file 3, as
results.sh does.

usage: each_test.py SECONDS KNOWN [run_tests option...]

SECONDS is how long one test may take. KNOWN is a file of tests that are known to fail: a name, a space and
why. The environment's LAB_TESTS, if set, is the beginning of the names of the tests to run.
"""

import os
import select
import signal
import sys
import time
import traceback
import unittest

# The folder of the tests is a package of this name.
TESTS = "/lab/pyverbs/tests"


def outcome(test):
    """Runs the test in this process, and returns what it came to, as "PASS", "FAIL why" or "SKIP why"."""
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    for _, trace in result.errors + result.failures:
        print(trace, flush=True)
        return "FAIL " + trace.strip().splitlines()[-1]
    if result.unexpectedSuccesses:
        return "FAIL it passed, and was expected not to"
    for _, reason in result.skipped:
        return "SKIP " + (reason or "no reason given")
    return "PASS"


def in_process(test, seconds):
    """Runs the test in a process of its own, and returns its outcome."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            os.close(reader)
            os.write(writer, outcome(test).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], seconds)
    answer = os.read(reader, 65536).decode(errors="replace") if ready else None
    os.close(reader)
    if answer is None:
        print(f"not done after {seconds} s", flush=True)
    # The test's own children, too.
    for group in (child, -child):
        try:
            if answer is None or group < 0:
                os.kill(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, status = os.waitpid(child, 0)
    if answer is None:
        return f"FAIL not done after {seconds} s"
    if not answer:
        return f"FAIL the process ended with wait status {status}"
    return answer


def tests_of(suite):
    """Every single test of a suite of suites."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


def main():
    seconds, known_file = int(sys.argv[1]), sys.argv[2]
    sys.argv[1:3] = []
    known = {}
    with open(known_file) as lines:
        for line in lines:
            name, _, reason = line.strip().partition(" ")
            known[name] = reason
    sys.path[0:0] = [TESTS, os.path.dirname(TESTS)]
    import args_parser

    args_parser.parser.parse_args()
    import tests

    suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
    wanted = os.environ.get("LAB_TESTS", "")
    for test in tests_of(suite):
        name = test.id().removeprefix("tests.")
        if not name.startswith(wanted):
            continue
        print(f"----- {name}", flush=True)
        started = time.monotonic()
        answer = in_process(test, seconds)
        word, _, why = answer.partition(" ")
        why = " ".join(why.split())[:200]
        if word == "FAIL" and name in known:
            word, why = "SKIP", f"known to fail: {known[name]} ({why})"
        print(f"{answer} ({time.monotonic() - started:.1f} s)", flush=True)
        os.write(3, f"{word} {name} {why}".rstrip().encode() + b"\n")


main()
