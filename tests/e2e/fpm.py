"""A real nginx before a real php-fpm with the extension, and wrk, which puts load on them and loses no answer."""

import os
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from servers import eventually, free_port

HERE = Path(__file__).parent / "outage"
FPM = "/usr/sbin/php-fpm8.2"


class Call(NamedTuple):
    """What the application said of one call."""

    status: int
    worker: int
    began: int
    """In µs, by the steady clock of the system."""
    took: int
    """In µs."""
    breaker: str
    """Before the call: `open` or `closed`."""
    source: str
    """Of the decision, or the kind of the error."""


class WebServer:
    """nginx and php-fpm with so many workers, which have the shared store of a folder of their own."""

    def __init__(self, workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rl-fpm-"))
        self.port = free_port()
        root = os.geteuid() == 0
        instead = {"FOLDER": str(self.folder), "PORT": str(self.port), "APPLICATION": str(HERE / "index.php")}
        instead["USER"] = "user root;" if root else ""
        text = (HERE / "nginx.conf").read_text()
        for name, value in instead.items():
            text = text.replace(name, value)
        (self.folder / "nginx.conf").write_text(text)
        user = "user = root\n" if root else ""
        (self.folder / "fpm.conf").write_text(
            f"[global]\nerror_log = {self.folder}/log\n[www]\n{user}listen = {self.folder}/fpm.sock\n"
            f"pm = static\npm.max_children = {workers}\nclear_env = no\n"
        )
        fpm = [FPM, "-n", "-F", "-y", f"{self.folder}/fpm.conf", "-d", f"extension={os.environ['RATELIMIT_SO']}"]
        environment = {**os.environ, "RATELIMIT_STORE": f"shared:{self.folder}/limits?size=1MiB"}
        self.processes = []
        self.start([*fpm, "-R"] if root else fpm, environment, lambda: (self.folder / "fpm.sock").exists())
        nginx = ["/usr/sbin/nginx", "-p", str(self.folder), "-e", f"{self.folder}/log", "-c", f"{self.folder}/nginx.conf"]
        try:
            self.start(nginx, dict(os.environ), self.answers)
        except BaseException:
            self.close()
            raise

    def start(self, command, environment, ready) -> None:
        with (self.folder / "output").open("ab") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        self.processes.append(process)

        def started() -> bool:
            assert process.poll() is None, f"{command[0]} did not start:\n{self.log()}"
            return ready()

        eventually(f"the start of {command[0]}", started)

    def answers(self) -> bool:
        try:
            return self.metrics() is not None
        except OSError:
            return False

    def log(self) -> str:
        return "".join(path.read_text() for name in ("log", "output") if (path := self.folder / name).exists())

    def metrics(self) -> Counter[str]:
        """Every line of the metrics that one of the workers tells, by name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            lines = [line for line in answer.read().decode().splitlines() if line and not line.startswith("#")]
        values = [(name, float(value)) for name, value in (line.rsplit(" ", 1) for line in lines)]
        assert len(dict(values)) == len(values), "no metric is told twice"
        return Counter(dict(values))

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Load:
    """wrk with so many connections, each of which asks again as soon as it has its answer."""

    def __init__(self, server: WebServer, connections: int, **query: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rl-wrk-"))
        self.connections = connections
        url = f"http://127.0.0.1:{server.port}/?{urllib.parse.urlencode(query)}"
        amount = ["-t", str(connections), "-c", str(connections), "-d", "10m", "--timeout", "30s"]
        command = ["wrk", *amount, "-s", str(HERE / "calls.lua"), url, "--", str(self.folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def lines(self) -> list[str]:
        texts = [path.read_text() for path in sorted(self.folder.glob("calls-*"))]
        # The last line may be half written.
        return [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]

    def calls(self) -> list[Call]:
        """The calls that are known so far, in the order in which they began."""
        calls = [Call(int(s), int(w), int(b), int(t), br, so) for s, w, b, t, br, so in map(str.split, self.whole_lines())]
        return sorted(calls, key=lambda call: call.began)

    def whole_lines(self) -> list[str]:
        return [line for line in self.lines() if line != "end"]

    def end(self) -> list[Call]:
        """Stops after the answers that are under way, and says what all calls were."""
        (self.folder / "stop").touch()
        eventually("the last answers", lambda: self.lines().count("end") == self.connections)
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=30)
        assert "Socket errors" not in output, output
        calls = self.calls()
        shutil.rmtree(self.folder)
        return calls
