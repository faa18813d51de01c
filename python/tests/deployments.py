"""Deployments of a test's own: sentinels with what they watch, clusters, and certificates. All of them are real."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
import redis.crc
import trustme
from servers import RedisServer, eventually, free_port

SLOTS = 16384


class Sentinels:
    """A primary and a replica, watched by three sentinels as `mymaster`."""

    def __init__(self, *options: str, password: str | None = None) -> None:
        """With options for the data servers, and perhaps with a password for the sentinels."""
        self.password = password
        self.primary, self.replica = (RedisServer("--repl-diskless-sync-delay", "0", *options) for _ in range(2))
        with self.replica.client() as client:
            client.replicaof("127.0.0.1", str(self.primary.port))
        eventually("the replication", lambda: is_in_step(self.replica))
        self.folder = tempfile.mkdtemp(prefix="rl-sentinels-")
        self.ports = [free_port() for _ in range(3)]
        self.processes = [subprocess.Popen(self._command(port), stdout=subprocess.DEVNULL) for port in self.ports]
        eventually("the sentinels", lambda: all(self._is_ready(port) for port in self.ports))

    def _command(self, port: int) -> list[str]:
        lines = [
            f"port {port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor mymaster 127.0.0.1 {self.primary.port} 2",
            "sentinel down-after-milliseconds mymaster 500",
            "sentinel failover-timeout mymaster 3000",
        ]
        if self.password is not None:
            lines += [f"requirepass {self.password}", f"sentinel sentinel-pass {self.password}"]
        file = Path(self.folder, f"{port}.conf")
        file.write_text("\n".join(lines))
        return ["redis-server", str(file), "--sentinel"]

    @contextlib.contextmanager
    def _sentinel(self, port: int) -> Iterator[redis.Redis]:
        client = redis.Redis(host="127.0.0.1", port=port, password=self.password)
        try:
            yield client
        finally:
            client.close()

    def _is_ready(self, port: int) -> bool:
        """Whether a sentinel knows the replica and both other sentinels."""
        with contextlib.suppress(redis.ConnectionError), self._sentinel(port) as client:
            state = client.info("sentinel").get("master0", {})
            return (state.get("slaves"), state.get("sentinels")) == (1, 3)
        return False

    def name(self, server: RedisServer) -> bool:
        """Whether all sentinels name this server as the primary."""
        for port in self.ports:
            with self._sentinel(port) as client:
                client.response_callbacks.clear()
                if command(client, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")[1] != b"%d" % server.port:
                    return False
        return True

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", port) for port in self.ports]

    @property
    def dsn(self) -> str:
        return f"redis+sentinel://{','.join(f'{host}:{port}' for host, port in self.addresses)}/mymaster"

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.primary.close()
        self.replica.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster:
    """Three primaries with equal shares of the slots, and perhaps a replica of each."""

    def __init__(self, *options: str, replicas: bool = False) -> None:
        settings = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"]
        # A replica asks for votes at once, whatever it may have missed.
        settings += ["--cluster-replica-validity-factor", "0", *options]
        self.nodes = [RedisServer(*settings, port=bus_port()) for _ in range(6 if replicas else 3)]
        self.primaries, self.replicas = self.nodes[:3], self.nodes[3:]
        for number, node in enumerate(self.nodes):
            self.tell(node, "SET-CONFIG-EPOCH", number + 1)
        eventually("the meeting of all", self._has_met)
        for number, node in enumerate(self.primaries):
            self.tell(node, "ADDSLOTSRANGE", number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
        for number in range(len(self.replicas)):
            self._replicate(number)
        eventually("the cluster", lambda: all(self._is_whole(node) for node in self.nodes))

    def _has_met(self) -> bool:
        """Whether all know all. A meeting that is not over in time is forgotten, so each look asks for it again."""
        for node in self.nodes:
            self.tell(node, "MEET", "127.0.0.1", self.nodes[0].port)
        time.sleep(0.1)
        return all(int(self.info(node)["cluster_known_nodes"]) == len(self.nodes) for node in self.nodes)

    def tell(self, node: RedisServer, *words: str | int) -> Any:
        with node.client() as client:
            client.response_callbacks.clear()
            return command(client, "CLUSTER", *words)

    def _replicate(self, number: int) -> None:
        """Makes a node a replica, as soon as it knows its primary."""
        primary = self.tell(self.primaries[number], "MYID")

        def told() -> bool:
            with contextlib.suppress(redis.ResponseError):
                self.tell(self.replicas[number], "REPLICATE", primary)
                return True
            return False

        eventually("the meeting", told)

    def _is_whole(self, node: RedisServer) -> bool:
        info = self.info(node)
        whole = info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == len(self.nodes)
        return whole and (node in self.primaries or is_in_step(node))

    def info(self, node: RedisServer) -> dict[str, str]:
        return dict(line.split(":") for line in self.tell(node, "INFO").decode().split())

    def owner(self, node: RedisServer, key: str) -> int:
        """The port of the primary that a node thinks has a user's key."""
        slot = self.slot(key)
        for first, last, (_, port, *_), *_ in self.tell(node, "SLOTS"):
            if first <= slot <= last:
                return int(port)
        return 0

    def slot(self, key: str) -> int:
        """The slot of a user's key, whatever the policy: the key is the hash tag."""
        return int(redis.crc.key_slot(key.encode()))

    def keys(self) -> list[str]:
        """A user's key for each primary."""
        found: dict[int, str] = {}
        number = 0
        while len(found) < 3:
            found.setdefault(self.slot(f"user:{number}") * 3 // SLOTS, f"user:{number}")
            number += 1
        return [found[owner] for owner in range(3)]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", node.port) for node in self.nodes]

    @property
    def dsn(self) -> str:
        return f"redis+cluster://{','.join(f'{host}:{port}' for host, port in self.addresses)}"

    def close(self) -> None:
        for node in self.nodes:
            node.close()


class Certificates:
    """An authority, a server's certificate for localhost and 127.0.0.1, and a client's, as PEM files."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="rl-certificates-")
        self.ca, self.cert, self.key, self.both = (
            str(Path(self.folder, name)) for name in ("ca.pem", "client.pem", "client.key", "client.both.pem")
        )
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        client, server = authority.issue_cert("client@example.org"), authority.issue_cert("localhost", "127.0.0.1")
        client.cert_chain_pems[0].write_to_path(self.cert)
        client.private_key_pem.write_to_path(self.key)
        client.private_key_and_cert_chain_pem.write_to_path(self.both)
        self.server_cert, self.server_key = (str(Path(self.folder, name)) for name in ("server.pem", "server.key"))
        server.cert_chain_pems[0].write_to_path(self.server_cert)
        server.private_key_pem.write_to_path(self.server_key)

    def options(self, tls_port: int, *, asks_clients: bool = False) -> list[str]:
        """Options for a server that takes encrypted connections on a port."""
        options = ["--tls-port", str(tls_port), "--tls-ca-cert-file", self.ca]
        options += ["--tls-cert-file", self.server_cert, "--tls-key-file", self.server_key]
        return [*options, "--tls-auth-clients", "yes" if asks_clients else "no"]

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def cut_replication(primary: RedisServer) -> None:
    """From now on what a primary takes reaches no replica, and is lost with it."""
    with primary.client() as client:
        command(client, "ACL", "SETUSER", "default", "-psync", "-sync")
        command(client, "CLIENT", "KILL", "TYPE", "replica")


def command(client: redis.Redis, *words: str | int) -> Any:
    """What the server answers, as it says it."""
    execute: Any = client.execute_command
    return execute(*words)


def is_in_step(replica: RedisServer) -> bool:
    with replica.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")


def is_primary(server: RedisServer) -> bool:
    with server.client() as client:
        return bool(client.info("replication")["role"] == "master")


def bus_port() -> int:
    """A free port, whose companion for the cluster's own talk is free as well."""
    for _ in range(1000):
        port = free_port()
        with contextlib.suppress(OSError), socket.socket() as companion:
            if port < 55000:
                companion.bind(("127.0.0.1", port + 10000))
                return port
    raise AssertionError("no port is free")
