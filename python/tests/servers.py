"""Servers of a test's own: real ones on free ports, and a relay that misbehaves in front of one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import redis


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(what: str, done: Callable[[], bool]) -> None:
    """Waits until `done` says so, for what a server does on its own and announces nowhere."""
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline, f"{what} did not happen within 30 s"
        time.sleep(0.002)


class RedisServer:
    """A `redis-server` on a free port, or on one of the caller's choice, and a socket."""

    def __init__(self, *options: str, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = tempfile.mkdtemp(prefix="rl-redis-")
        self.socket = os.path.join(self.folder, "redis.sock")
        self.options = options
        self.credentials = ""
        """What its DSN has in front of the host."""
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--unixsocket", self.socket, "--dir", self.folder, *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        eventually("the start of redis-server", self.answers)

    def answers(self) -> bool:
        """Whether it talks, be it only to say that a password is needed."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(1) in (b"+", b"-") and os.path.exists(self.socket)
        return False

    def stop(self) -> None:
        """Stops it at once; the port stays its own."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def freeze(self) -> None:
        """From now on the server accepts connections and answers nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """While this lasts the server accepts connections and answers nothing."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    @property
    def dsn(self) -> str:
        return f"redis://{self.credentials}127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def client(self, **options: object) -> Iterator[redis.Redis]:
        """A client of the test's own, to look behind the library's back."""
        client = redis.Redis(host="127.0.0.1", port=self.port, **options)  # type: ignore[arg-type]
        try:
            yield client
        finally:
            client.close()

    def calls(self, command: str) -> int:
        """How often a command has been carried out, as the server counts."""
        with self.client() as client:
            return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])

    def decisions(self) -> int:
        return self.calls("evalsha") + self.calls("eval")


class SilentListener:
    """Accepts connections and never answers."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]

    @property
    def dsn(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.listener.close()


class Relay:
    """Stands between a client and a server, and can hold replies back."""

    def __init__(self, port: int) -> None:
        self.server_port = port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.delay = 0.0
        """Seconds by which every reply is late."""
        self.connections = 0
        """Connections taken so far."""
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def dsn(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def close(self) -> None:
        # Wakes the thread that is in accept().
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.connections += 1
                server = socket.create_connection(("127.0.0.1", self.server_port))
                for connection in (client, server):
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets += [client, server]
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if replies and self.delay:
                    time.sleep(self.delay)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
