"""What holds for each page and each button that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

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

if TYPE_CHECKING:
    import httpx

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
READER = Caller(
    subject="eve",
    scopes=frozenset(SCOPES) - {"jobs:pause", "jobs:write", "runs:write"},
)


def calling(**options: Any) -> Calling:
    return Calling(create_dashboard(Client(MemoryStore()), **options))


def made(path: str) -> str:
    """A path of something that is not there."""
    return path.replace("{id:uuid}", str(UUID(int=9)))


def are_careful(answer: httpx.Response) -> bool:
    """Whether browsers are told to be."""
    return all(answer.headers[name] == value for name, value in HEADERS.items())


@pytest.mark.parametrize(
    ("options", "status"),
    [({"access": with_keys()}, 303), ({"authorize": lambda _: NOBODYS}, 403)],
    ids=["not signed in", "without the scope"],
)
def test_nobody_sees_or_does_anything_who_may_not(
    options: dict[str, Any], status: int
) -> None:
    with calling(**options) as browser:
        for method, path in ROUTES:
            answer = browser.request(method, made(path), headers=OWN)
            assert answer.status_code == status, path
            assert are_careful(answer)
            to_sign_in = answer.headers.get("Location", "").startswith("/login")
            assert to_sign_in is (status == 303)


def test_every_page_tells_browsers_to_be_careful() -> None:
    with calling(authorize=as_ann) as browser:
        for path in PAGES:
            answer = browser.get(made(path))
            assert answer.status_code == (404 if "{" in path else 200), path
            assert are_careful(answer)
            assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("options", "sent", "token", "status"),
    [
        pytest.param({}, OWN, None, 404, id="on its page"),
        pytest.param({}, {}, None, 403, id="from nowhere"),
        pytest.param({}, OWN, "none", 403, id="without its token"),
        pytest.param({"allow_changes": False}, OWN, None, 403, id="without changes"),
        pytest.param({"authorize": lambda _: READER}, OWN, None, 403, id="a reader"),
    ],
)
def test_each_button_is_pressed_on_its_page_alone_by_who_may(
    options: dict[str, Any], sent: dict[str, str], token: str | None, status: int
) -> None:
    with calling(**{"authorize": as_ann} | options) as browser:
        form = {"csrf": token or token_in(browser.get("/"))}
        for path in BUTTONS:
            answer = browser.post(made(path), data=form, headers=sent)
            assert answer.status_code == status, path
