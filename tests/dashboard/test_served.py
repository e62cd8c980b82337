"""The dashboard as an application, beside the API of a server, and by a command."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from go_scheduler import ConfigurationError, MemoryStore
from go_scheduler.cli import main
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.app import configured
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import new_key
from go_scheduler.models import State
from go_scheduler.stores import open_store
from go_scheduler.testing import ManualClock
from tests.cli.shell import Process
from tests.dashboard.house import OWN, as_ann, probing, token_in
from tests.dashboard.parsed import Parsed
from tests.http.serving import Calling, get
from tests.http.test_serving import served, settings_of
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send


class AtRoot:
    """Has an application be below ``/d``, as a server behind a proxy does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app({**scope, "root_path": "/d"}, receive, send)


@pytest.mark.parametrize("outer", [Starlette, FastAPI])
def test_all_its_links_are_where_it_is_mounted(outer: type[Starlette]) -> None:
    app = outer(routes=[Mount("/ops/tasks", create_dashboard(Client(MemoryStore())))])
    with Calling(app) as browser:
        page = browser.get("/ops/tasks/").text
        links = re.findall(r'(?:href|src|action)="([^#][^"]*)"', page)
        assert len(links) > 4
        for each in links:
            assert each.startswith("/ops/tasks/")
            assert browser.get(each).status_code == 200
        assert browser.get("/ops/tasks").headers["Location"].endswith("/ops/tasks/")


def test_two_in_one_application_are_used_in_turns() -> None:
    paths = ("/shop", "/mail")
    mounted = [
        Mount(path, probing(Client(MemoryStore()), authorize=as_ann)) for path in paths
    ]
    with Calling(Starlette(routes=mounted)) as browser:
        tokens = [token_in(browser.get(f"{path}/")) for path in paths]
        for path, token in zip(paths, tokens, strict=True):
            form = {"csrf": token, "note": "mine"}
            answer = browser.post(f"{path}/probe/press", headers=OWN, data=form)
            assert answer.text == "pressed: mine"


@pytest.mark.parametrize("make", [create_dashboard, create_app])
def test_a_url_instead_of_a_client_is_refused_at_the_call(
    make: Callable[[Any], ASGIApp],
) -> None:
    url = "postgresql://ann:secret@host/jobs"
    with pytest.raises(
        ConfigurationError, match=r"Client\(open_store\(url\)\)"
    ) as told:
        make(url)
    assert "secret" not in str(told.value)
    with pytest.raises(ConfigurationError, match="must be a Client, not <"):
        make(MemoryStore())


@pytest.mark.parametrize("sent", ["", "/d"])
def test_a_proxy_may_take_the_root_off_or_leave_it(sent: str) -> None:
    app = create_dashboard(Client(MemoryStore()))
    app.add_middleware(AtRoot)
    with Calling(app) as browser:
        page = browser.get(f"{sent}/instances?state=failed").text
    assert 'href="/d/instances" aria-current="page"' in page
    assert 'hx-get="/d/instances?state=failed"' in page


def test_a_static_file_is_kept_for_ever_if_the_link_has_its_version(
    browser: Calling,
) -> None:
    [link] = re.findall(r'href="([^"]*dashboard.css[^"]*)"', browser.get("/").text)
    answer = browser.get(link)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    again = browser.get(link, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    answer = browser.get("/static/dashboard.css")
    assert answer.headers["Cache-Control"] == "public, no-cache"


def test_each_state_has_one_colour_on_all_pages(browser: Calling) -> None:
    rules = browser.get("/static/dashboard.css").text.splitlines()
    for word in ["planned", "active", "paused", *State]:
        [rule] = [
            each for each in rules if re.search(rf"\.{word}\b[^{{]*{{.*var", each)
        ]
        assert "{ --state: var(--" in rule
    users = [each.partition(" {")[0] for each in rules if "var(--state" in each]
    assert users == [".state", "svg .mark, svg .heap rect"]


def test_what_is_carried_has_its_licence_beside(browser: Calling) -> None:
    assert browser.get("/static/vendor/htmx.min.js").status_code == 200
    assert "BSD" in browser.get("/static/vendor/htmx.LICENSE.txt").text


def test_nobody_unknown_is_to_change_anything() -> None:
    with pytest.raises(ConfigurationError, match="give access= or authorize="):
        create_dashboard(Client(MemoryStore()), allow_changes=True)


def test_pages_go_by_the_time_of_the_store() -> None:
    client = Client(MemoryStore(ManualClock()))
    with Calling(create_dashboard(client)) as browser:
        assert "As of 2030-01-01 00:00" in Parsed(browser.get("/")).text


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
