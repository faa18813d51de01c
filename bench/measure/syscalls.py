"""System calls per decision, as strace counts them: a run of 100 calls and one of 100 more (S2)."""

import re
import subprocess
import tempfile
from collections import Counter

CALLS = 100


def permitted() -> bool:
    """Whether this machine lets one process trace another."""
    return subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


def per_decision(command: list[str]) -> dict[str, float]:
    """How often each system call happens in one decision; those that do not happen are left out."""
    more = _counted([*command, str(2 * CALLS)])
    more.subtract(_counted([*command, str(CALLS)]))
    return {name: count / CALLS for name, count in sorted(more.items()) if count > 0}


def _counted(command: list[str]) -> Counter[str]:
    with tempfile.NamedTemporaryFile("r") as summary:
        subprocess.run(["strace", "-f", "-c", "-o", summary.name, *command], check=True, capture_output=True)
        rows = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", summary.read(), re.MULTILINE)
    return Counter({name: int(count) for count, name in rows if name != "total"})
