"""On what, when and of which versions a run measured: the caption of its plots."""

import datetime
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from . import paths


def describe(redis: str) -> dict[str, str]:
    """The machine, the date and the versions, in the order in which a caption names them."""
    root = paths.BENCH.parent
    core = _found(r'name = "ratelimit-core"\nversion = "([^"]+)"', (root / "Cargo.lock").read_text())
    governor = _found(r'name = "governor"\nversion = "([^"]+)"', (paths.BENCH / "rust" / "Cargo.lock").read_text())
    processor = _found(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True)
    php = "echo PHP_VERSION, ' ', phpversion('redis');"
    modules = ["-d", "extension=igbinary.so", "-d", "extension=redis.so"]
    php_version, phpredis = _output("php", "-n", *modules, "-r", php).split()
    return {
        "machine": f"{processor}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "date": datetime.date.today().isoformat(),
        "ratelimit": f"{core} {commit.stdout.strip()}".strip(),
        "Redis": redis,
        "PHP": php_version,
        "phpredis": phpredis,
        "Predis": _package("php-predis"),
        "Symfony RateLimiter": _package("php-symfony-rate-limiter"),
        "Python": platform.python_version(),
        "redis-py": metadata.version("redis"),
        "limits": metadata.version("limits"),
        "slowapi": metadata.version("slowapi"),
        "Flask-Limiter": metadata.version("flask-limiter"),
        "django-ratelimit": metadata.version("django-ratelimit"),
        "hiredis": _package("libhiredis-dev"),
        "governor": governor,
    }


def caption(machine: dict[str, str]) -> str:
    """All of it in one line."""
    named = [f"{name} {value}" for name, value in machine.items() if name not in ("machine", "date")]
    return "; ".join([machine["machine"], machine["date"], ", ".join(named)])


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "unknown"


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _package(name: str) -> str:
    """The version of a Debian package, without what Debian adds."""
    version = _output("dpkg-query", "--show", "--showformat=${Version}", name)
    return re.sub(r"^\d+:|[+-].*$", "", version)
