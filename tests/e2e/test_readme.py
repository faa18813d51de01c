"""What the README shows in each language does what it says: ten calls pass, the eleventh is refused."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def shown(language, port):
    """The first example in a language, with this test's server in place of the one it names."""
    example = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)[1]
    assert "redis://127.0.0.1:6379" in example
    return example.replace("127.0.0.1:6379", f"127.0.0.1:{port}")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_php(server):
    # In one process: eleven starts of PHP may take longer than it takes a token to come back. A refusal ends it.
    program = "$user = 'php';\nfor ($call = 0; $call < 11; $call++) {\n" + shown("php", server) + "\necho 'passed ';\n}"
    command = ["php", "-d", f"extension={os.environ['RATELIMIT_SO']}", "-r", program]
    assert run(*command) == "passed " * 10


def test_python(server):
    program = (
        "class TooManyRequests(Exception):\n"
        "    def __init__(self, retry_after): assert 0 < retry_after <= 1\n"
        "user = 'python'\n"
        "def handle():\n    " + shown("python", server).replace("\n", "\n    ") + "\n"
        "for _ in range(10): handle()\n"
        "try: handle()\n"
        "except TooManyRequests: print('refused')\n"
    )
    assert run(sys.executable, "-c", program) == "refused\n"


def test_c(server, tmp_path):
    program = tmp_path / "example.c"
    example = shown("c", server).replace("rl_allow(", "for (int i = 0; i < 11; i++) rl_allow(")
    program.write_text(
        '#include <stdio.h>\n#include "ratelimit.h"\nint main(void) {\n'
        "    rl_policy *policy; rl_store *store; rl_limiter *limiter; rl_decision decision;\n"
        '    const uint8_t key[] = "login:c"; size_t key_length = sizeof key - 1;\n'
        f"{example}\n"
        '    printf("%d %d\\n", decision.allowed, (int)decision.limit);\n    return 0;\n}\n'
    )
    library = Path(os.environ["RATELIMIT_C_LIBRARY"])
    include = f"-I{ROOT / 'include'}"
    run("gcc", "-std=c99", include, str(program), "-o", str(tmp_path / "example"), str(library), "-lpthread", "-ldl", "-lm")
    assert run(str(tmp_path / "example")) == "0 10\n"


def test_policies_as_texts():
    """Every text that the README names is a policy, and reads back from what it is printed as."""
    from ratelimit_rs import Policy

    texts = re.findall(r"`([0-9][^`]*)`", README[README.index("Or as a text:") :][:400])
    assert len(texts) == 8
    for text in texts:
        assert Policy.parse(str(Policy.parse(text))) == Policy.parse(text)
