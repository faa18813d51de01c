"""A Redis server of our own, and just enough of its protocol."""

import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

Part = bytes | str | int | float


def encode(*parts: Part) -> bytes:
    """A command as it is sent."""
    command = [b"*%d\r\n" % len(parts)]
    for part in parts:
        part = part if isinstance(part, bytes) else str(part).encode()
        command.append(b"$%d\r\n%s\r\n" % (len(part), part))
    return b"".join(command)


class Server:
    """Runs while the `with` block does, on a port that was free."""

    def __enter__(self) -> "Server":
        self._folder = tempfile.TemporaryDirectory()
        for _ in range(20):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            options = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", self._folder.name]
            self._process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), *options], stdout=subprocess.DEVNULL
            )
            if self._connects():
                return self
        raise SystemExit("no redis-server has started on 20 free ports; try `redis-server --port 0` by hand")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def _connects(self) -> bool:
        while self._process.poll() is None:
            try:
                self._socket = socket.create_connection(("127.0.0.1", self.port))
                self._replies = self._socket.makefile("rb")
                return True
            except ConnectionRefusedError:
                time.sleep(0.01)
        return False

    def ask(self, *parts: Part) -> object:
        """One command and its reply."""
        self._socket.sendall(encode(*parts))
        return self.read()

    def send(self, commands: bytes) -> None:
        """Commands that are encoded already; their replies are to be read."""
        self._socket.sendall(commands)

    def read(self) -> object:
        """One reply. An error ends the run: nothing here is meant to fail."""
        line = self._replies.readline()
        kind, text = line[:1], line[1:-2]
        if kind == b"$":
            return self._replies.read(int(text) + 2)[:-2] if int(text) >= 0 else None
        if kind == b"*":
            return [self.read() for _ in range(int(text))]
        if kind == b":":
            return int(text)
        if kind == b"+":
            return text
        raise SystemExit(f"redis-server says: {line.decode(errors='replace')}")

    def version(self) -> str:
        return self._info("server", r"redis_version:(\S+)")

    def script_us(self) -> float:
        """Microseconds per EVALSHA since the statistics were reset, as the server counts them."""
        return float(self._info("commandstats", r"cmdstat_evalsha:.*usec_per_call=([\d.]+)"))

    def cpu_ns(self) -> int:
        """How long the server's main thread has been running on a processor."""
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0])

    def _info(self, section: str, pattern: str) -> str:
        info = self.ask("INFO", section)
        found = re.search(pattern, info.decode() if isinstance(info, bytes) else "")
        if found is None:
            raise SystemExit(f"redis-server's INFO {section} has changed: {pattern} is not in it")
        return found[1]
