"""What the documentation shows is what happens."""

from __future__ import annotations

import asyncio
import doctest
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ratelimit_rs
import ratelimit_rs.aio

README = Path(__file__).parents[1] / "README.md"
DOCS = Path(__file__).parents[2] / "docs"
DEPLOYMENTS = DOCS / "deployments.md"
APIS = sorted((DOCS / "outbound").glob("*.md"))


def test_the_examples_of_the_readme_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        command = [sys.executable, "-W", "error", "-c", block]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.returncode, ended.stderr) == (0, ""), block


@pytest.mark.parametrize("page", APIS, ids=lambda page: page.stem)
def test_the_examples_of_a_page_on_calling_an_api_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What names no store must not work on the shared one of whoever runs this.
    monkeypatch.setenv("RATELIMIT_STORE", "memory:")
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    command = [sys.executable, "-W", "error", "-c", "\n".join(blocks)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_there_is_a_page_for_each_api_that_the_table_links_to() -> None:
    assert len(APIS) >= 12
    linked = re.findall(r"\(outbound/([a-z]+)\.md\)", (DOCS / "outbound.md").read_text())
    assert sorted(linked) == [page.stem for page in APIS]


def test_the_page_of_deployments_has_every_option_and_no_other() -> None:
    with pytest.raises(ratelimit_rs.InvalidStore) as caught:
        ratelimit_rs.Store.open("redis://h?nonsense=1")
    said = re.sub("with redis[+]sentinel|with rediss|and", "", str(caught.value).split("there are")[1])
    table = DEPLOYMENTS.read_text().partition("| option |")[2].partition("\n\n")[0]
    names = [name for row in table.splitlines() for name in re.findall("`([a-z_]+)`", row.split("|")[1])]
    assert sorted(names) == sorted(re.findall("[a-z_]+", said))


def test_the_forms_on_the_page_of_deployments_name_stores() -> None:
    table = DEPLOYMENTS.read_text().partition("| DSN |")[2].partition("\n\n")[0]
    forms = re.findall(r"`((?:redis|rediss|unix)\b[^`…]*(?:,…[^`]*)?)`", table)
    assert len(forms) == 5
    for form in forms:
        full = re.sub(r"[\[\]]", "", form).replace(",…", ",host2").replace(":port", ":7000").replace("database", "0")
        least = re.sub(r"\[[^]]*\]", "", form).replace(",…", "")
        for dsn in (full, least, full.replace("redis", "valkey")):
            assert ratelimit_rs.Store.open(dsn).kind in ("redis", "sentinel", "cluster"), dsn


MODULES = [ratelimit_rs, ratelimit_rs.aio]


def documented() -> list[tuple[ModuleType, str, str]]:
    """Every docstring of the package that shows something."""
    found = []
    for module in MODULES:
        found.append((module, module.__name__, module.__doc__ or ""))
        for name in module.__all__:
            thing = getattr(module, name)
            found.append((module, name, thing.__doc__ or ""))
            if isinstance(thing, type):
                members = {member: getattr(thing, member) for member in vars(thing) if not member.startswith("_")}
                found += [(module, f"{name}.{member}", value.__doc__ or "") for member, value in members.items()]
    return [(module, name, text) for module, name, text in found if ">>>" in text]


@pytest.mark.parametrize(("module", "name", "text"), documented(), ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "")
def test_the_examples_of_a_docstring_give_what_they_say(module: ModuleType, name: str, text: str) -> None:
    names = {"asyncio": asyncio} | {public: getattr(module, public) for public in module.__all__}
    example = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    results = doctest.DocTestRunner(verbose=False).run(example)
    assert results.attempted > 0
    assert results.failed == 0


def test_everything_public_is_documented() -> None:
    for module, name in [(module, name) for module in MODULES for name in module.__all__]:
        thing = getattr(module, name)
        assert not callable(thing) or thing.__doc__, name
        if not isinstance(thing, type):
            continue
        for member, value in vars(thing).items():
            if not member.startswith("_") and (callable(value) or isinstance(value, staticmethod)):
                assert getattr(thing, member).__doc__, f"{name}.{member}"
