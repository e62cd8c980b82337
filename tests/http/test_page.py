"""The pages on the HTTP API show what a server answers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from go_scheduler.http.limits import Limits
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from fastapi import FastAPI

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "http-api.md").read_text()
JOBS = (DOCS / "jobs.md").read_text()
NEEDED = ("bash", "curl", "jq")
PLACE = "http://127.0.0.1:8710"
END = "-- end of a command --"


class Command(NamedTuple):
    """A command of the page, and what it prints."""

    text: str
    printed: str


def commands(page: str = PAGE) -> list[Command]:
    """The commands of the blocks of a page, in their order."""
    found: list[Command] = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for text in re.split(r"^\$ ", block, flags=re.M)[1:]:
            typed, *lines = text.splitlines()
            while lines and lines[0].startswith("> "):
                typed += "\n" + lines.pop(0).removeprefix("> ")
            found.append(Command(typed, "\n".join(lines)))
    return found


@pytest.mark.slow
@pytest.mark.documentation
@pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}"
)
@pytest.mark.parametrize(
    ("page", "count"), [(PAGE, 30), (JOBS, 15)], ids=["http-api", "jobs"]
)
def test_each_command_prints_what_is_shown(
    app: FastAPI, tmp_path: Path, page: str, count: int
) -> None:
    shown = commands(page)
    assert len(shown) > count
    with served(app) as (host, port):
        script = f"\necho '{END}'\n".join([*(each.text for each in shown), ""])
        done = subprocess.run(
            ["bash", "-s"],
            input=script.replace(PLACE, f"http://{host}:{port}"),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=FAILED_AFTER,
            check=True,
        )
    printed = done.stdout.split(END)
    for (text, expected), found in zip(shown, printed, strict=False):
        # The page shows a part of a long answer.
        pattern = ".*".join(map(re.escape, expected.split("…")))
        assert re.fullmatch(pattern, found.strip(), re.S), (text, found, done.stderr)


def test_each_limit_is_explained() -> None:
    table = PAGE.partition("\n## Limits\n")[2]
    for name in Limits.__dataclass_fields__:
        assert f"`{name}`" in table, name


def test_each_route_of_definitions_and_instances_is_shown(app: FastAPI) -> None:
    typed = "\n".join(each.text for each in commands())
    for path in app.openapi()["paths"]:
        if path.startswith(("/v1/definitions", "/v1/instances")):
            assert path.rpartition("}")[2] in typed, path
