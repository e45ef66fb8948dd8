#!/usr/bin/env python3
"""Prints the slowest tests of a run of ctest, those that failed, and as the last line "N passed, N failed".

Usage: test_results.py FILE [N]    FILE is what ctest --output-junit wrote; the N slowest, by default 10
"""

import sys
import xml.etree.ElementTree


def outcome(test):
    """"passed", "failed" or "skipped". A test that could not be started has failed."""
    if test.get("status") == "run":
        return "passed"
    skipped = test.find("skipped")
    left_out = test.get("status") == "disabled" or (skipped is not None and skipped.get("message", "").startswith("SKIP_"))
    return "skipped" if left_out else "failed"


def main():
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    try:
        suite = xml.etree.ElementTree.parse(sys.argv[1]).getroot()
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"No results of tests: {error}\n0 passed, 0 failed")
        return 1
    names = {"passed": [], "failed": [], "skipped": []}
    for test in suite.iter("testcase"):
        names[outcome(test)].append(test.get("name"))
    slowest = sorted(suite.iter("testcase"), key=lambda test: float(test.get("time")), reverse=True)[:most]
    print(f"The slowest tests, in seconds of wall time; all together took {suite.get('time')} s:")
    for test in slowest:
        print(f"  {float(test.get('time')):7.1f}  {test.get('name')}")
    for kind in ("skipped", "failed"):
        if names[kind]:
            print(f"{kind.capitalize()}: {' '.join(names[kind])}")
    print(f"{len(names['passed'])} passed, {len(names['failed'])} failed")
    return 0 if names["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
