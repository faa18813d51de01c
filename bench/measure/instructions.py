"""User-mode instructions per call, as callgrind counts them: a run of so many calls and one of 1000 more (S1, S4).

The difference is what the calls cost, without starting up, without the kernel and without noise.
"""

import os
import re
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

MORE = 1000


def count(commands: dict[str, list[str]]) -> dict[str, int]:
    """Instructions per call by name. `commands` lack the number of calls as their last argument."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        few = {name: pool.submit(_collected, command, 100) for name, command in commands.items()}
        many = {name: pool.submit(_collected, command, 100 + MORE) for name, command in commands.items()}
        return {name: round((many[name].result() - few[name].result()) / MORE) for name in commands}


def _collected(command: Iterable[str], calls: int) -> int:
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    # Python would otherwise hash in another order each time.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run([*valgrind, *command, str(calls)], capture_output=True, text=True, env=environment)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or found is None:
        raise SystemExit(f"{' '.join(command)} has failed under valgrind:\n{run.stdout}{run.stderr}")
    return int(found[1])
