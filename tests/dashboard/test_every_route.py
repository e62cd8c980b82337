"""What holds for each page and each button that there is."""

from __future__ import annotations

from uuid import UUID

import httpx
import pytest
from starlette.routing import Route

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.admission import HEADERS
from go_scheduler.dashboard.signing_in import ROUTES as SIGNING_IN
from go_scheduler.http.access.caller import SCOPES, Caller
from tests.dashboard.house import OWN, as_ann, token_in
from tests.dashboard.test_signing_in import with_keys
from tests.http.serving import Calling

OPEN = {each.path for each in SIGNING_IN}
ROUTES = [
    (method, each.path)
    for each in create_dashboard(Client(MemoryStore())).routes
    if isinstance(each, Route) and each.path not in OPEN
    for method in sorted((each.methods or set()) - {"HEAD"})
]
PAGES = [path for method, path in ROUTES if method == "GET"]
BUTTONS = [path for method, path in ROUTES if method != "GET"]
NOBODYS = Caller(subject="nobody", scopes=frozenset())


def made(path: str) -> str:
    """A path of something that is not there."""
    return path.replace("{id:uuid}", str(UUID(int=9)))


def are_careful(answer: httpx.Response) -> bool:
    """Whether browsers are told to be."""
    return all(answer.headers[name] == value for name, value in HEADERS.items())


def test_there_are_pages_and_buttons() -> None:
    assert {method for method, _ in ROUTES} == {"GET", "POST"}
    assert {"/", "/definitions", "/instances/{id:uuid}"} <= {*PAGES}
    assert "/definitions/{id:uuid}/pause" in BUTTONS


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_sees_or_does_anything_without_signing_in(
    method: str, path: str
) -> None:
    with Calling(
        create_dashboard(Client(MemoryStore()), access=with_keys())
    ) as browser:
        answer = browser.request(method, made(path), headers=OWN)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/login")
    assert are_careful(answer)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nobody_sees_or_does_anything_without_the_scope(method: str, path: str) -> None:
    app = create_dashboard(Client(MemoryStore()), authorize=lambda _: NOBODYS)
    with Calling(app) as browser:
        answer = browser.request(method, made(path), headers=OWN)
    assert answer.status_code == 403
    assert are_careful(answer)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_tells_browsers_to_be_careful(path: str) -> None:
    app = create_dashboard(Client(MemoryStore()), authorize=as_ann)
    with Calling(app) as browser:
        answer = browser.get(made(path))
    assert answer.status_code == (404 if "{" in path else 200)
    assert are_careful(answer)
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", BUTTONS)
def test_no_button_is_pressed_but_on_its_page(path: str) -> None:
    app = create_dashboard(Client(MemoryStore()), authorize=as_ann)
    with Calling(app) as browser:
        form = {"csrf": token_in(browser.get("/"))}
        for headers, data in [
            ({}, form),
            ({"Sec-Fetch-Site": "cross-site"}, form),
            ({"Origin": "https://evil.example"}, form),
            (OWN, {"csrf": "none"}),
        ]:
            answer = browser.post(made(path), data=data, headers=headers)
            assert answer.status_code == 403
        assert browser.post(made(path), data=form, headers=OWN).status_code == 404


@pytest.mark.parametrize("path", BUTTONS)
def test_no_button_is_pressed_where_nothing_is_changed(path: str) -> None:
    app = create_dashboard(Client(MemoryStore()), authorize=as_ann, allow_changes=False)
    with Calling(app) as browser:
        form = {"csrf": token_in(browser.get("/"))}
        assert browser.post(made(path), data=form, headers=OWN).status_code == 403


@pytest.mark.parametrize("path", BUTTONS)
def test_no_button_is_pressed_by_who_may_only_read(path: str) -> None:
    reader = Caller(
        subject="eve",
        scopes=frozenset(SCOPES) - {"jobs:pause", "jobs:write", "runs:write"},
    )
    app = create_dashboard(Client(MemoryStore()), authorize=lambda _: reader)
    with Calling(app) as browser:
        form = {"csrf": token_in(browser.get("/"))}
        assert browser.post(made(path), data=form, headers=OWN).status_code == 403
