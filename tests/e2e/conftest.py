"""A Redis server of these tests' own."""

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

# Sentinels and clusters are started as in the tests of the Python module.
sys.path.append(str(Path(__file__).parents[2] / "python" / "tests"))


@pytest.fixture(scope="module")
def server():
    """Its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True).stdout != b"PONG\n":
                assert time.monotonic() < deadline, "redis-server did not start"
            yield port
        finally:
            process.terminate()
            process.wait()
