"""Does what each line of standard input says, and answers with a line:

`lock KEY`, `lease KEY`: the holder's text, or none. `unlock KEY TEXT`, `return KEY TEXT`: whether it was held.
`count KEY FILE TIMES`: adds so often one to the number in a file under a lock. `enter KEY FOLDER TIMES`: enters a folder so
often under a lease, and tells how many were inside at most."""

import os
import sys
from pathlib import Path

from ratelimit_rs import Concurrency, Lock

dsn, limit = sys.argv[1:]
lock, limited = Lock(dsn), Concurrency(int(limit), 600, dsn, name="e2e")


def count(key, file, times):
    for _ in range(int(times)):
        with lock.hold(key, 600):
            Path(file).write_text(str(int(Path(file).read_text()) + 1))
    return times


def enter(key, folder, times):
    place, most = Path(folder, str(os.getpid())), 0
    for _ in range(int(times)):
        with limited.lease(key, max_wait=None):
            place.touch()
            most = max(most, len(os.listdir(folder)))
            place.unlink()
    return most


verbs = {
    "lock": lambda key: lock.acquire(key, 600) or "none",
    "unlock": lambda key, holder: "yes" if lock.release(key, holder) else "no",
    "lease": lambda key: limited.acquire(key) or "none",
    "return": lambda key, lease: "yes" if limited.release(key, lease) else "no",
    "count": count,
    "enter": enter,
}
for line in sys.stdin:
    verb, *arguments = line.split()
    print(verbs[verb](*arguments), flush=True)
