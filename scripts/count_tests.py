"""Adds up the closing lines of the test runners in standard input; prints `PASSED FAILED`."""

import re
import sys

passed = failed = 0
for line in sys.stdin:
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    # cargo test: `test result: ok. 3 passed; 0 failed; …`
    cargo = re.search(r"test result: \w+\. (\d+) passed; (\d+) failed", line)
    # Our own runners: `3 passed, 0 failed` alone on a line.
    plain = re.fullmatch(r"\s*(\d+) passed, (\d+) failed\s*", line)
    if counts := cargo or plain:
        passed += int(counts[1])
        failed += int(counts[2])
print(passed, failed)
