"""Where things are. `scripts/bench` builds them and says where it built them."""

import os
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ["CARGO_TARGET_DIR"]) / "release"

EXTENSION = TARGET / "libratelimit_php.so"
COMMANDS = TARGET / "commands"
MEMORY = TARGET / "memory"
MANY_KEYS = TARGET / "many_keys"
PROCESSES = TARGET / "processes"
LEASES = TARGET / "leases"
C_CALLER = TARGET / "bench-caller"

RESULTS = BENCH / "results"


def php(way: str, port: int, *calls: str) -> list[str]:
    """The command line of the PHP caller. No ini file, so that no setting of this machine matters."""
    # The client of phpredis can serialize with igbinary, and so needs it.
    extensions = [str(EXTENSION)] if "limiter" in way or way == "token_bucket" else ["igbinary.so", "redis.so"]
    if way == "apcu":
        extensions = ["apcu.so"]
    options = [option for name in extensions for option in ("-d", f"extension={name}")] + ["-d", "apc.enable_cli=1"]
    return ["php", "-n", *options, str(BENCH / "callers" / "caller.php"), way, str(port), *calls]


def php_middleware(way: str, *calls: str) -> list[str]:
    """The command line of the PHP caller for middlewares."""
    extensions = ["ctype.so", "iconv.so", "mbstring.so", "tokenizer.so", str(EXTENSION)]
    options = [option for name in extensions for option in ("-d", f"extension={name}")]
    return ["php", "-n", *options, str(BENCH / "callers" / "middleware.php"), way, *calls]


def python(way: str, port: int, *calls: str) -> list[str]:
    """The command line of the Python caller."""
    return [sys.executable, str(BENCH / "callers" / "caller.py"), way, str(port), *calls]


def awaited(way: str, port: int, tasks: int) -> list[str]:
    """The command line of the asyncio caller."""
    return [sys.executable, str(BENCH / "callers" / "awaited.py"), way, str(port), str(tasks)]


def python_middleware(way: str) -> list[str]:
    """The command line of the Python caller for middlewares."""
    return [sys.executable, str(BENCH / "callers" / "middleware.py"), way]


def c(way: str, port: int, *calls: str) -> list[str]:
    """The command line of the C caller."""
    return [str(C_CALLER), way, str(port), *calls]
