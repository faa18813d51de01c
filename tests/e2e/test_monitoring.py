"""What the page on monitoring shows in each language prints the metrics."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "monitoring.md").read_text()
FILES = dict(re.findall(r"^```\w+ (\S+)\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL))
# There from the start, whatever has been counted.
LINE = "rate_limiter_dropped_refunds_total 0\n"


def printed(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **options).stdout


def test_php(tmp_path):
    (tmp_path / "metrics.php").write_text(FILES["metrics.php"])
    command = ["php", "-d", f"extension={os.environ['RATELIMIT_SO']}", str(tmp_path / "metrics.php")]
    assert LINE in printed(*command)


def test_python(tmp_path):
    (tmp_path / "metrics.py").write_text(FILES["metrics.py"])
    ask = "from metrics import application; print(application({}, lambda status, headers: None)[0].decode())"
    assert LINE in printed(sys.executable, "-c", ask, cwd=tmp_path)


def test_c(tmp_path):
    source, program = tmp_path / "metrics.c", tmp_path / "metrics"
    source.write_text(FILES["metrics.c"])
    library = os.environ["RATELIMIT_C_LIBRARY"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    printed("gcc", *flags, str(source), library, "-lpthread", "-ldl", "-lm", "-o", str(program))
    assert LINE in printed(str(program))
