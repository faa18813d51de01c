"""The stubs say what the module is, and a type checker can use them."""

from __future__ import annotations

import importlib.resources
import subprocess
import sys
from pathlib import Path

import ratelimit_rs

HERE = Path(__file__).parent


def check(*arguments: str, folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    return ended.returncode, ended.stdout + ended.stderr


def test_the_stubs_agree_with_the_module(tmp_path: Path) -> None:
    status, output = check("mypy.stubtest", "ratelimit_rs", folder=tmp_path)
    assert status == 0, output


def test_what_is_written_in_python_passes_the_strict_type_checker(tmp_path: Path) -> None:
    status, output = check("mypy", "--strict", "--package", "ratelimit_rs", folder=tmp_path)
    assert status == 0, output


def test_a_typed_program_passes_the_strict_type_checker_and_runs(tmp_path: Path) -> None:
    program = str(HERE / "typed_program.py")
    status, output = check("mypy", "--strict", program, folder=tmp_path)
    assert status == 0, output


def test_the_type_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from ratelimit_rs import Limiter, Policy, Store, aio\n"
        "limiter = Limiter(Policy.token_bucket(1, 1), Store.memory())\n"
        "limiter.allow(5)\n"
        "limiter.allow('k', cost='1')\n"
        "Limiter(Policy.token_bucket(1, 1), on_error='perhaps')\n"
        "limiter.allow('k').remainder\n"
        "limiter.allow({'default': 5})\n"
        "limiter.reserve('k', max_wait='1')\n"
        "limiter.refund('k').allowed\n"
        "limiter.limit(key=5)\n"
        "limiter.limit(key='k')(len)('a', 'b')\n"
        "Policy.gcra(10)\n"
        "aio.Limiter(Policy.gcra(10, 1), on_error='perhaps')\n"
        "aio.Limiter.of(limiter).allow('k').allowed\n"
        "aio.Limiter.of(limiter).limit(key='k')(len)\n"
        "limiter.allow_many([5])\n"
        "limiter.allow_many([('k', '1')])\n"
    )
    status, output = check("mypy", "--strict", str(wrong), folder=tmp_path)
    assert status == 1
    lines = [int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line]
    assert sorted(set(lines)) == list(range(3, 18)), output


def test_the_package_says_that_it_is_typed_and_what_is_public() -> None:
    files = importlib.resources.files("ratelimit_rs")
    assert files.joinpath("py.typed").is_file()
    assert files.joinpath("_native.pyi").is_file()
    assert list(ratelimit_rs.__all__) == sorted(ratelimit_rs.__all__)
    assert all(hasattr(ratelimit_rs, name) for name in ratelimit_rs.__all__)
    assert ratelimit_rs.__version__.count(".") == 2
