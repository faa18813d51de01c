"""What is measured, one function per target."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from . import instructions, latency, paths, server_time, syscalls
from .latency import Caller, Turn
from .plot import Bar, Panel
from .server import Server, encode
from .table import Row, beside, by_count, by_ratio


@dataclass
class Result:
    rows: list[Row] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    title: str
    plot: str
    measure: Callable[[Server], Result]


def redis_instructions(server: Server) -> Result:
    port = server.port
    counted = instructions.count({
        "Limiter": paths.php("limiter", port),
        "TokenBucket": paths.php("token_bucket", port),
        "phpredis": paths.php("phpredis", port),
        "Predis": paths.php("predis", port),
        "Symfony": paths.php("symfony_redis", port),
        "Python": paths.python("limiter", port),
        "redis-py": paths.python("redis_py", port),
        "limits": paths.python("limits", port),
    })  # fmt: skip
    c = beside_hiredis()
    php, python = counted["Limiter"], counted["Python"]
    unit, script = "instr.", "redis.io's script"
    rows = [
        by_count("S1", "PHP on Redis, Limiter", php, unit, f"phpredis, {script}", counted["phpredis"], at_most=3000),
        by_count("S1", "PHP on Redis, TokenBucket", counted["TokenBucket"], unit, f"Predis, {script}",
                 counted["Predis"], at_most=3000),
        beside("S1", "PHP on Redis, Limiter", php, unit, "Symfony, token bucket without lock", counted["Symfony"]),
        by_count("S1", "Python on Redis", python, unit, f"redis-py, {script}", counted["redis-py"], at_most=6000),
        beside("S1", "Python on Redis", python, unit, "limits, fixed window", counted["limits"]),
        by_ratio("S1", "C on Redis", c["ours"], unit, "hiredis, the same EVALSHA", c["argv"], at_most=1.2),
    ]  # fmt: skip
    panels = [
        Panel("From PHP, on Redis", [
            Bar("ratelimit, Limiter", php, ours=True),
            Bar("ratelimit, TokenBucket", counted["TokenBucket"], ours=True),
            Bar(f"phpredis, {script}", counted["phpredis"]),
            Bar(f"Predis, {script}", counted["Predis"]),
            Bar("Symfony, token bucket without lock", counted["Symfony"]),
        ]),
        Panel("From Python, on Redis", [
            Bar("ratelimit", python, ours=True),
            Bar("limits, fixed window", counted["limits"]),
            Bar(f"redis-py, {script}", counted["redis-py"]),
        ]),
        Panel("From C, on Redis", [
            Bar("ratelimit", c["ours"], ours=True),
            Bar("hiredis, the same EVALSHA", c["argv"]),
        ]),
    ]  # fmt: skip
    return Result(rows, panels)


def beside_hiredis() -> dict[str, float]:
    """What `bench/c/run` prints, which has a server of its own."""
    run = subprocess.run([paths.BENCH / "c" / "run"], check=True, capture_output=True, text=True)
    ours = re.search(r"^ratelimit, rl_allow\s+(\d+)", run.stdout, re.MULTILINE)
    argv = re.search(r"^hiredis \S+ redisCommandArgv\s+(\d+)", run.stdout, re.MULTILINE)
    if not ours or not argv:
        raise SystemExit(f"bench/c/run prints something new:\n{run.stdout}")
    return {"ours": float(ours[1]), "argv": float(argv[1])}


@contextmanager
def callers(commands: dict[str, list[str]], environment: dict[str, str] | None = None) -> Iterator[dict[str, Turn]]:
    started: dict[str, Turn] = {}
    try:
        for name, command in commands.items():
            started[name] = Caller(command, environment)
        yield started
    finally:
        for caller in started.values():
            if isinstance(caller, Caller):
                caller.stop()


def redis_latency(server: Server) -> Result:
    text, parts = server_time.own_commands()["allowed/token_bucket"]
    port = server.port
    with tempfile.NamedTemporaryFile() as command:
        command.write(encode(*parts))
        command.flush()
        # The script is there from the first call on, which the caller in C makes.
        commands = {
            "C": paths.c("one", port),
            "socket": paths.c("socket", port),
            "PHP": paths.php("limiter", port),
            "Python": paths.python("limiter", port),
            "phpredis": paths.php("phpredis", port),
            "redis-py": paths.python("redis_py", port),
        }
        with callers(commands, {**os.environ, "COMMAND": command.name}) as turns:
            turns["C"](1)
            turns["redis-benchmark"] = latency.redis_benchmark(server, text, parts)
            times = latency.take_turns(turns, calls=2000, rounds=25)
    medians = {name: latency.median(all_) for name, all_ in times.items()}
    rows = []
    for name in ("C", "PHP", "Python"):
        for peer, label in (("redis-benchmark", "redis-benchmark -c 1"), ("socket", "write and read on a socket")):
            ratio = latency.ratio(times[name], times[peer])
            row = by_ratio("S2", f"{name}, latency", medians[name], "µs", label, medians[peer], at_most=1.2, ratio=ratio)
            rows.append(row)
    rows.append(beside("S2", "PHP, latency", medians["PHP"], "µs", "phpredis, redis.io's script", medians["phpredis"]))
    rows.append(beside("S2", "Python, latency", medians["Python"], "µs", "redis-py, redis.io's script", medians["redis-py"]))
    rows += system_calls(port)
    bars = [Bar(f"ratelimit from {name}", medians[name], ours=True) for name in ("C", "PHP", "Python")]
    bars += [Bar("redis-benchmark -c 1, the same script", medians["redis-benchmark"])]
    bars += [Bar("write and read on a socket, the same bytes", medians["socket"])]
    bars += [Bar(f"{name}, redis.io's script", medians[name]) for name in ("phpredis", "redis-py")]
    return Result(rows, [Panel("One policy", bars)])


def system_calls(port: int) -> list[Row]:
    if not syscalls.permitted():
        print("    strace may not trace here (ptrace is not allowed), so system calls are not counted", flush=True)
        return []
    rows = []
    for name, ours, peer, theirs in (
        ("C", paths.c("one", port), "phpredis", paths.php("phpredis", port)),
        ("PHP", paths.php("limiter", port), "phpredis", paths.php("phpredis", port)),
        ("Python", paths.python("limiter", port), "redis-py", paths.python("redis_py", port)),
    ):
        counted, peers = syscalls.per_decision(ours), syscalls.per_decision(theirs)
        what = ", ".join(f"{count:g} {call}" for call, count in counted.items())
        total = sum(counted.values())
        row = by_count("S2", f"{name}: {what}", total, "syscalls", peer, sum(peers.values()), at_most=2)
        rows.append(row)
    return rows


def own_memory(server: Server) -> Result:
    port = server.port
    commands = {
        "Python": paths.python("limiter_memory", port),
        "limits": paths.python("limits_memory", port),
        "PHP": paths.php("limiter_memory", port),
        "PHP shared": paths.php("limiter_shared", port),
        "APCu": paths.php("apcu", port),
        "Symfony": paths.php("symfony_memory", port),
        "Symfony window": paths.php("symfony_memory_window", port),
    }
    counted = instructions.count(commands)
    with callers(commands) as turns:
        times = latency.take_turns(turns, calls=5000, rounds=25)
    us = {name: latency.median(all_) for name, all_ in times.items()}
    limits, bucket, window = "limits, fixed window", "Symfony, token bucket", "Symfony, fixed window"
    rows = [
        by_count("S4", "Python in memory", counted["Python"], "instr.", limits, counted["limits"], at_most=1500),
        by_ratio("S4", "Python in memory, time", us["Python"], "µs", limits, us["limits"], at_most=0.1,
                 ratio=latency.ratio(times["Python"], times["limits"])),
        by_count("S3", "PHP in shared memory", counted["PHP shared"], "instr.", bucket, counted["Symfony"], at_most=1500),
        by_ratio("S3", "PHP in shared memory, time", us["PHP shared"], "µs", "a counter in APCu", us["APCu"], at_most=1.0,
                 ratio=latency.ratio(times["PHP shared"], times["APCu"])),
        beside("S3", "PHP in shared memory", counted["PHP shared"], "instr.", "a counter in APCu", counted["APCu"]),
        beside("S3", "PHP in memory", counted["PHP"], "instr.", bucket, counted["Symfony"]),
        beside("S3", "PHP in memory", counted["PHP"], "instr.", window, counted["Symfony window"]),
        beside("S3", "PHP in memory, time", us["PHP"], "µs", bucket, us["Symfony"]),
    ]  # fmt: skip

    def panel(title: str, values: dict[str, float]) -> list[Panel]:
        return [
            Panel(f"From Python, {title}", [
                Bar("ratelimit", values["Python"], ours=True), Bar(limits, values["limits"]),
            ]),
            Panel(f"From PHP, {title}", [
                Bar("ratelimit", values["PHP"], ours=True), Bar("ratelimit, shared memory", values["PHP shared"], ours=True),
                Bar("a counter in APCu", values["APCu"]), Bar(window, values["Symfony window"]),
                Bar(bucket, values["Symfony"]),
            ]),
        ]  # fmt: skip

    return Result(rows, panel("instructions", {**counted}) + panel("microseconds", us))


def beside_governor(_server: Server) -> Result:
    run = subprocess.run([paths.MEMORY], check=True, capture_output=True, text=True)
    rows, bars = [], []
    for line in run.stdout.splitlines():
        keys, memory, shared, governor, lmdb = line.split()
        named = f"{int(keys):,}".replace(",", " ") + (" keys" if keys != "1" else " key")
        for place, ours in (("memory", float(memory)), ("shared memory", float(shared))):
            row = by_ratio("S5", f"Rust in {place}, {named}", ours, "ns", "governor", float(governor), at_most=0.9)
            rows.append(row)
            bars.append(Bar(f"ratelimit in {place}, {named}", ours, ours=True))
        rows.append(beside("S5", f"Rust in shared memory, {named}", float(shared), "ns", "a counter in LMDB", float(lmdb)))
        bars.append(Bar(f"governor, {named}", float(governor)))
    return Result(rows, [Panel("From Rust, keyed by a string, nanoseconds", bars)])


def many_keys(_server: Server) -> Result:
    run = subprocess.run([paths.MANY_KEYS], check=True, capture_output=True, text=True)
    (few, *few_ns, _), (many, *many_ns, each) = (line.split() for line in run.stdout.splitlines())
    grouped = f"{int(many):,}".replace(",", " ")
    rows = [
        by_ratio("S8", f"Rust in {place}, {grouped} keys", float(ns), "ns", f"{few} keys", float(base), at_most=2.0)
        for place, ns, base in zip(("memory", f"shared memory, {each} bytes a key"), many_ns, few_ns, strict=True)
    ]
    return Result(rows)


def processes(_server: Server) -> Result:
    run = subprocess.run([paths.PROCESSES], check=True, capture_output=True, text=True)
    (_, *alone), *more = (line.split() for line in run.stdout.splitlines())
    rows, bars = [], []
    for count, *together in more:
        for kind, ours, base in zip(("keys of their own", "one key"), together, alone, strict=True):
            what = f"{count} processes on shared memory, {kind}, a second"
            rows.append(beside("S10", what, float(ours) / 1e6, "million", "one process", float(base) / 1e6))
            bars.append(Bar(f"{count} processes, {kind}", float(ours) / 1e6, ours=True))
    return Result(rows, [Panel("Decisions a second on one shared store, in millions", bars)])


def leases(server: Server) -> Result:
    dsn = f"redis://127.0.0.1:{server.port}?timeout=5"
    run = subprocess.run([paths.LEASES, dsn], check=True, capture_output=True, text=True)
    (limit, reached, unleased, most), (_, unreached, unlimited, _) = (
        map(int, line.split()) for line in run.stdout.splitlines()
    )
    if most > limit:
        raise SystemExit(f"{most} passed in one window of {limit}")
    rows, bars = [], []
    for what, ours, theirs, least in (
        (f"limit {limit:,} a second".replace(",", " "), reached, unleased, 1.0),
        ("a limit nobody reaches", unreached, unlimited, None),
    ):
        ours, theirs, peer = ours / 1e6, theirs / 1e6, "a round trip per call"
        work, unit = f"4 processes with leases, {what}, a second", "million"
        row = beside("leases", work, ours, unit, peer, theirs)
        if least is not None:
            row = replace(row, reach=f"≥ {least:g} million", met=ours >= least)
        rows.append(row)
        bars += [Bar(f"with leases, {what}", ours, ours=True), Bar(f"{peer}, {what}", theirs)]
    return Result(rows, [Panel("Decisions a second on one hot key on Redis, 4 processes, in millions", bars)])


SCRIPTS = {
    "token_bucket": "token bucket",
    "gcra": "GCRA",
    "fixed_window": "fixed window",
    "sliding_window_counter": "sliding window counter",
    "sliding_window_log": "sliding window log",
    "three_policies": "three policies in one call",
}
LOADS = {"allowed": "all pass", "exceeding": "half is refused"}


def server_costs(server: Server) -> Result:
    # 20 units for each caller, who asks 40 times: half of that is refused.
    costs = server_time.measure(server, {"allowed": 50, "exceeding": 40})
    result = Result()
    for load, title in LOADS.items():
        cost = costs[load]

        def row(script: str, peer: str, label: str, reach: float | None = None, *, cpu: bool = False) -> Row:
            """Ours beside another script, in the script alone or in all that the server does."""
            ours, theirs = (cost[name].cpu_us if cpu else cost[name].script_us for name in (script, peer))
            work = f"{SCRIPTS[script]}, {title}" + (", all CPU time" if cpu else "")
            ratio, us, peers = latency.ratio(ours, theirs), latency.median(ours), latency.median(theirs)
            return by_ratio("S6", work, us, "µs", label, peers, at_most=reach, ratio=ratio)

        redis_io, bars = "redis.io's script", []
        for script, name in SCRIPTS.items():
            peer, label = "redis.io", redis_io
            if script == "three_policies":
                peer, label = "redis.io_three_times", f"{redis_io}, three times"
            reach = 0.8 if load == "allowed" and script in ("token_bucket", "gcra") else None
            result.rows += [row(script, peer, label, reach), row(script, peer, label, reach, cpu=True)]
            bars.append(Bar(f"ratelimit, {name}", latency.median(cost[script].cpu_us), ours=True))
        result.rows.append(row("token_bucket", "floor", "GET and SET with expiry"))
        for peer, label in (
            ("floor", "GET and SET with expiry"), ("redis.io", redis_io), ("redis.io_three_times", f"{redis_io}, three times"),
        ):  # fmt: skip
            bars.append(Bar(label, latency.median(cost[peer].cpu_us)))
        result.panels.append(Panel(f"Pipelined, 1000 callers, {title}", bars))
    return result


def three_policies(server: Server) -> Result:
    with callers({"one": paths.c("one", server.port), "three": paths.c("three", server.port)}) as turns:
        times = latency.take_turns(turns, calls=2000, rounds=41)
    three, one = latency.median(times["three"]), latency.median(times["one"])
    ratio = latency.ratio(times["three"], times["one"])
    row = by_ratio("S7", "C, three policies in one call", three, "µs", "one policy", one, at_most=1.4, ratio=ratio)
    bars = [Bar("one policy", one, ours=True), Bar("three policies in one call", three, ours=True)]
    return Result([row], [Panel("Several policies, from C", bars)])


def php_middlewares(_: Server) -> Result:
    """A request through each middleware, on a store in memory, beside the handler alone and beside the framework's own."""
    ways = ("psr15_none", "psr15", "laravel_none", "laravel", "laravel_throttle", "symfony", "symfony_own")
    counted = instructions.count({way: paths.php_middleware(way) for way in ways})
    psr15 = counted["psr15"] - counted["psr15_none"]
    laravel, throttle = (counted[way] - counted["laravel_none"] for way in ("laravel", "laravel_throttle"))
    unit = "instr."
    rows = [
        beside("HTTP", "PSR-15, what the middleware adds", psr15, unit, "the handler alone", counted["psr15_none"]),
        beside("HTTP", "Laravel, what ratelimit: adds", laravel, unit, "what throttle: adds", throttle),
        beside("HTTP", "Symfony, create and consume", counted["symfony"], unit, "Symfony's own, in memory", counted["symfony_own"]),
    ]  # fmt: skip
    panels = [
        Panel("What a middleware adds to a request, in memory", [
            Bar("ratelimit, PSR-15", psr15, ours=True),
            Bar("ratelimit, Laravel", laravel, ours=True),
            Bar("Laravel, throttle:", throttle),
            Bar("ratelimit, Symfony's interface", counted["symfony"], ours=True),
            Bar("Symfony, fixed window without lock", counted["symfony_own"]),
        ]),
    ]  # fmt: skip
    return Result(rows, panels)


def event_loop(server: Server) -> Result:
    """From asyncio: of many tasks, where what counts is how many decisions a second, and of one, which waits for each."""
    text, parts = server_time.own_commands()["allowed/token_bucket"]
    server.ask("SCRIPT", "LOAD", text)
    peers = {"redis_py": "redis-py, the same EVALSHA", "limits": "limits, fixed window"}
    result = Result()
    with tempfile.NamedTemporaryFile() as command:
        command.write(b"\0".join(parts))
        command.flush()
        for tasks, calls, rounds in ((10_000, 10_000, 9), (1, 200, 41)):
            commands = {way: paths.awaited(way, server.port, tasks) for way in ("limiter", *peers)}
            with callers(commands, {**os.environ, "COMMAND": command.name}) as turns:
                times = latency.take_turns(turns, calls=calls, rounds=rounds)
            us = {way: latency.median(all_) for way, all_ in times.items()}
            named = f"{tasks:,} tasks".replace(",", " ") if tasks > 1 else "one task"
            for way, label in peers.items():
                ratio = latency.ratio(times["limiter"], times[way])
                row = by_ratio("asyncio", f"{named}, per decision", us["limiter"], "µs", label, us[way], ratio=ratio)
                result.rows.append(row)
            bars = [Bar("ratelimit_rs.aio", 1e6 / us["limiter"], ours=True)]
            bars += [Bar(label, 1e6 / us[way]) for way, label in peers.items()]
            result.panels.append(Panel(f"From asyncio, {named}", bars))
    return result


def python_middlewares(_: Server) -> Result:
    """A request through each middleware, on a store in memory, beside the framework alone and beside its own limiters."""
    peers = {"starlette": "slowapi", "flask": "flask-limiter", "django": "django-ratelimit"}
    titles = {"starlette": "Starlette", "flask": "Flask", "django": "Django"}
    ways = [way for name, peer in peers.items() for way in (name, f"{name}:ours", f"{name}:{peer}")]
    with callers({way: paths.python_middleware(way) for way in ways}) as turns:
        times = latency.take_turns(turns, calls=300, rounds=31)

    def added(way: str, name: str) -> list[float]:
        return [behind - alone for behind, alone in zip(times[way], times[name], strict=True)]

    rows, bars = [], []
    for name, peer in peers.items():
        ours, theirs = added(f"{name}:ours", name), added(f"{name}:{peer}", name)
        us, peers_us, alone = latency.median(ours), latency.median(theirs), latency.median(times[name])
        title = f"{titles[name]}, what the middleware adds"
        rows += [
            beside("HTTP", title, us, "µs", f"what {peer} adds", peers_us),
            beside("HTTP", title, us, "µs", "a request without", alone),
        ]
        bars += [Bar(f"ratelimit, {titles[name]}", us, ours=True), Bar(peer, peers_us)]
    return Result(rows, [Panel("What a middleware adds to a request from Python, in memory, microseconds", bars)])


SECTIONS = {
    "S1": Section("instructions per decision on Redis", "instructions", redis_instructions),
    "S2": Section("latency and system calls of a decision on Redis", "latency", redis_latency),
    "S4": Section("a decision in memory, from Python and PHP", "memory", own_memory),
    "S5": Section("a decision in memory, from Rust", "memory", beside_governor),
    "S6": Section("server time per decision", "server_time", server_costs),
    "S7": Section("three policies in one call", "latency", three_policies),
    "S8": Section("a decision in memory with very many keys, from Rust", "memory", many_keys),
    "S10": Section("several processes on one shared store", "processes", processes),
    "leases": Section("several processes on one hot key on Redis", "processes", leases),
    "HTTP": Section("what a middleware adds to a request, from PHP", "instructions", php_middlewares),
    "asyncio": Section("decisions that are awaited", "asyncio", event_loop),
    "HTTP-Python": Section("what a middleware adds to a request, from Python", "memory", python_middlewares),
}
