"""A shell on a store of each kind that processes can share."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler import Scheduler
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.stores import open_store
from tests.cli.shell import Shell
from tests.http.serving import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave nothing of the machine's that a command would find."""
    for name in os.environ:
        if name.startswith("GO_SCHEDULER_") and not name.startswith(
            "GO_SCHEDULER_TEST_"
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module that commands can import; its name is another each time."""

    def write(text: str) -> str:
        name = f"jobs_{uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    monkeypatch.syspath_prepend(tmp_path)
    return write


@pytest.fixture
def near(
    sqlite_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """On an empty file of SQLite."""
    return Shell(f"sqlite:///{shutil.copy(sqlite_file, tmp_path / 'cli.db')}", capsys)


@pytest.fixture
def server(near: Shell) -> Iterator[str]:
    """A server on the store of the shell, which runs nothing and hands out work."""
    with closing(open_store(near.url)) as store:
        scheduler = Scheduler(None, store)
        work = LongPoll(scheduler)
        with served(create_app(Client(store), work=work)) as (host, port):
            yield f"http://{host}:{port}"


@pytest.fixture
def far(server: str, near: Shell, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The same shell, by the server."""
    return Shell(server, capsys, store=near.url)


@pytest.fixture
def shell(near: Shell) -> Shell:
    """On the store; some modules use it by the server as well."""
    return near


@pytest.fixture(params=["near", "far"])
def either(request: pytest.FixtureRequest) -> Shell:
    """On the store, and by a server: commands do and print the same."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Shell)
    return found
