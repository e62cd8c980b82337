"""The dashboard beside the API of a server, and by a command of its own."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import httpx
import pytest

from go_scheduler.cli import main
from go_scheduler.dashboard.app import configured
from go_scheduler.http.access.keys import new_key
from go_scheduler.stores import open_store
from tests.cli.shell import Process
from tests.http.serving import get
from tests.http.test_serving import served, settings_of
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_a_server_has_it_beside_its_api() -> None:
    def use(url: str) -> None:
        found = get(url, follow_redirects=True)
        assert str(found.url) == f"{url}/dashboard/"
        assert "<h1>Overview</h1>" in found.text
        assert get(f"{url}/dashboard").headers["Location"] == "/dashboard/"
        assert get(f"{url}/dashboards").status_code == 404
        assert httpx.post(f"{url}/", json={}, timeout=FAILED_AFTER).status_code == 404
        assert get(f"{url}/v1/stats").status_code == 200
        assert get(f"{url}/healthz").status_code == 200
        large = {"x": "y" * 40_000}
        assert get(f"{url}/dashboard/", headers=large).status_code == 431
        # Pages of anybody on this machine change nothing.
        answer = httpx.post(f"{url}/dashboard/login", timeout=FAILED_AFTER)
        assert answer.status_code == 404

    ended, said = served(settings_of(), use, pages=configured)
    assert ended
    assert any(each.endswith("/dashboard/ shows what runs") for each in said)


@pytest.mark.slow
def test_who_looks_on_does_not_keep_a_server_from_stopping() -> None:
    with ExitStack() as stack:
        streams: list[httpx.Response] = []

        def use(url: str) -> None:
            asked = httpx.stream(
                "GET", f"{url}/dashboard/live/instances", timeout=FAILED_AFTER
            )
            streams.append(stack.enter_context(asked))
            assert streams[0].status_code == 200

        ended, _ = served(settings_of(), use, pages=configured)
        assert ended
        # It came to its end, and was not broken off.
        assert streams[0].read().startswith(b"retry:")


@pytest.mark.slow
def test_its_paths_are_below_that_which_a_proxy_has() -> None:
    def use(url: str) -> None:
        assert get(url).headers["Location"] == "/tasks/dashboard/"
        links = re.findall(r'href="([^#][^"]+)"', get(f"{url}/dashboard/").text)
        assert links
        assert all(each.startswith("/tasks/dashboard/") for each in links)

    served(settings_of("server: {root_path: /tasks}"), use, pages=configured)


@pytest.mark.slow
def test_where_there_are_keys_people_sign_in() -> None:
    new = new_key()
    text = f"""
access:
  keys:
    - {{subject: ops, hash: "{new.kept}", scopes: [jobs:read, runs:read]}}
dashboard: {{client_secret: s3cret, origin: "https://tasks.example.org"}}
"""

    def use(url: str) -> None:
        answer = get(f"{url}/dashboard/")
        assert answer.headers["Location"] == "/dashboard/login?next=%2F"
        login = get(f"{url}/dashboard/login")
        assert login.status_code == 200
        assert "__Host-go_scheduler-" in login.headers["Set-Cookie"]

    served(settings_of(text), use, pages=configured)


@pytest.mark.slow
def test_a_command_shows_a_store(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with closing(open_store(url)) as store:
        store.initialize()
    process = Process("dashboard", "--store", url, "--port", "0", cwd=tmp_path)
    where = process.listening()
    assert "<h1>Overview</h1>" in get(f"{where}/").text
    assert get(f"{where}/v1/stats").status_code == 404
    assert process.end(signal.SIGTERM) == 0


def test_a_command_refuses_a_server_and_a_schema_that_is_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    for words, code, told in (
        (["--server", "http://a:8710/"], 2, "open http://a:8710/dashboard/"),
        (["--store", "sqlite:///empty.db"], 3, "go_scheduler migrate"),
    ):
        assert main(["dashboard", *words, "--port", "0"]) == code
        assert told in capsys.readouterr().err
