"""The page about locks: its examples run as they stand there, and the rights that it names are enough."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "locks.md").read_text()
README = (ROOT / "README.md").read_text()


def shown(language, port):
    """The examples in a language, with this test's server in place of the one they name."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    assert all("redis://127.0.0.1:6379" in block for block in blocks)
    return [block.replace("127.0.0.1:6379", f"127.0.0.1:{port}") for block in blocks]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_php(server):
    options = ["-d", "zend.assertions=1", "-d", "display_errors=stderr", "-d", f"extension={os.environ['RATELIMIT_SO']}"]
    for block in shown("php", server):
        run("php", "-n", *options, "-r", block)


def test_python(server):
    for block in shown("python", server):
        run(sys.executable, "-W", "error", "-c", block)


def test_the_readme(tmp_path):
    section = README[README.index("## Locks, and limits") : README.index("## Stores")]
    [python] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    [php] = re.findall(r"```php\n(.*?)```", section, re.DOTALL)
    environment = {**os.environ, "RATELIMIT_STORE": f"shared:{tmp_path}/limits?timeout=5"}
    program = f"from ratelimit_rs import Lock\nmake_report = print\n{python}"
    assert run(sys.executable, "-c", program, env=environment) == "7\n"
    program = f"$id = 42; $file = 'photo'; function store($file) {{ echo $file; }}\n{php}"
    assert run("php", "-d", f"extension={os.environ['RATELIMIT_SO']}", "-r", program, env=environment) == "photo"


def test_c(server, tmp_path):
    source, program = tmp_path / "example.c", tmp_path / "example"
    lock, concurrency = shown("c", server)
    for block, outcome in ((lock, "acquired && released"), (concurrency, "acquired && released && decision.remaining == 1")):
        source.write_text(f'#include <stdio.h>\n#include "ratelimit.h"\nint main(void) {{\n{block}\nreturn !({outcome});\n}}\n')
        library = os.environ["RATELIMIT_C_LIBRARY"]
        strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
        run("gcc", *strict, str(source), "-o", str(program), library, "-lpthread", "-ldl", "-lm")
        run(str(program))


@pytest.mark.parametrize("what", ["locks", "concurrency limits"])
def test_the_rights_that_the_page_names_are_enough(server, what):
    from ratelimit_rs import Concurrency, Lock

    limiter = re.search(r"An ACL user needs `([^`]*)`", README)[1]
    for_locks, for_limits = re.findall(r"`(\+[^`]*)`", PAGE[PAGE.index("## Rights") :])
    rights = [*limiter.split(), *(for_locks if what == "locks" else for_limits).split()]
    run("redis-cli", "-p", str(server), "ACL", "SETUSER", "holder", "reset", "on", ">pass", *rights)
    dsn = f"redis://holder:pass@127.0.0.1:{server}?timeout=5"
    if what == "locks":
        lock = Lock(dsn)
        for _ in range(2):
            with lock.hold("rights", 60) as held:
                assert held.extend()
                assert lock.is_held("rights")
                assert lock.acquire("rights", 60) is None
        # Nobody knows who took the expiry away.
        lock.acquire("rights", 60)
        run("redis-cli", "-p", str(server), "PERSIST", "rl:lock:{rights}")
        assert lock.acquire("rights", 60) is None
    else:
        limit = Concurrency(2, 60, dsn, name="rights")
        with limit.lease("k") as lease, limit.lease("k"):
            assert lease.extend()
            assert limit.peek("k").remaining == 0
            assert limit.acquire("k") is None
        short = Concurrency(1, 0.05, dsn, name="short")
        short.acquire("k")
        assert short.acquire("k", max_wait=10) is not None
