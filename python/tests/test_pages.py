"""The pages of the frameworks: their applications, run as they stand there, print what the pages say."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from servers import RedisServer, eventually, free_port

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = re.compile(r"(?<=;t=)\d+|(?<=again in )\d+")


def same(expected: str, printed: str) -> bool:
    """Seconds that have passed since are no difference, as long as they are few."""
    told, seen = SECONDS.findall(expected), SECONDS.findall(printed)
    if SECONDS.sub("N", expected) != SECONDS.sub("N", printed):
        return False
    return all(0 <= int(one) - int(other) <= 30 for one, other in zip(told, seen, strict=True))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("name", ["fastapi", "asgi", "wsgi", "flask", "django"])
def test_the_application_of_a_page_prints_what_the_page_says(name: str, server: RedisServer, tmp_path: Path) -> None:
    page = (DOCS / f"{name}.md").read_text()
    for file, text in re.findall(r"^```python (\S+)\n(.+?)^```$", page, re.MULTILINE | re.DOTALL):
        (tmp_path / file).write_text(text)
    [start] = re.findall(r"^```sh\nRATELIMIT_STORE=redis://127.0.0.1:6379 (.+)\n```$", page, re.MULTILINE)
    blocks = "".join(re.findall(r"^```console\n(.+?)^```$", page, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", blocks, re.MULTILINE)
    assert len(commands) > 4
    port = free_port()
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RATELIMIT_STORE": f"{server.dsn}?timeout=5",
    }
    log = tmp_path / "log"
    with log.open("w") as output:
        command = ["sh", "-c", "exec " + start.replace("8000", str(port))]
        running = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)
    try:
        eventually(f"the start of `{start}`", lambda: listens(port) or running.poll() is not None)
        assert running.poll() is None, log.read_text()
        for line, expected in commands:
            line = line.replace("localhost:8000", f"127.0.0.1:{port}")
            printed = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False).stdout
            assert same(expected, printed), f"{line}\nexpected\n{expected}\ngot\n{printed}\n{log.read_text()[-3000:]}"
    finally:
        running.terminate()
        running.wait()


@pytest.mark.parametrize("file", ["events.py", "telemetry.py"])
def test_a_program_of_the_page_on_events_prints_what_the_page_says(file: str, tmp_path: Path) -> None:
    page = (DOCS / "events.md").read_text()
    [program] = re.findall(rf"^```python {file}\n(.+?)^```$", page, re.MULTILINE | re.DOTALL)
    [expected] = re.findall(rf"^\$ python {file}\n(.+?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / file).write_text(program)
    ended = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert (ended.stdout, ended.stderr) == (expected, "")
