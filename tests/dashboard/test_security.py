"""Pages are for those who may see them, and are changed by their own forms alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from queue import Queue
from typing import Any
from uuid import UUID

import pytest
from fastapi import Request
from markupsafe import escape
from starlette.routing import Route

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.request import SignedCookies
from go_scheduler.dashboard.signing_in import ROUTES as SIGNING_IN
from go_scheduler.events import RequestAllowed, RequestEvent, RequestRefused, hears
from go_scheduler.http import OpenAccess
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.problems import Problem
from go_scheduler.testing.clock import START
from tests.conftest import seconds
from tests.dashboard.house import (
    ANN,
    HOSTILE,
    OWN,
    SECRET,
    as_ann,
    press,
    probing,
    token_in,
)
from tests.dashboard.test_signing_in import ELSEWHERE, with_keys
from tests.http.serving import Calling
from tests.patience import FAILED_AFTER

READER = Caller(subject="reader", scopes=frozenset({"jobs:read", "runs:read"}))


@pytest.fixture
def anns() -> Iterator[Calling]:
    """What calls a dashboard that is mounted, as somebody who may do everything."""
    with Calling(probing(authorize=as_ann)) as calling:
        yield calling


@pytest.fixture
def anybodys() -> Iterator[Calling]:
    """What calls one that knows nobody."""
    with Calling(probing()) as calling:
        yield calling


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/probe", 200),
        ("GET", "/static/dashboard.css", 200),
        ("GET", "/static/none.css", 404),
        ("GET", "/none", 404),
        ("DELETE", "/", 405),
        ("POST", "/probe/press", 403),
        ("GET", "/probe/failing", 500),
    ],
)
def test_every_answer_tells_browsers_to_be_careful(
    anns: Calling, method: str, path: str, status: int
) -> None:
    answer = anns.request(method, path)
    assert answer.status_code == status
    policy = answer.headers["Content-Security-Policy"].split("; ")
    for rule in ("default-src", "base-uri", "frame-ancestors"):
        assert f"{rule} 'none'" in policy
    for rule in ("script-src", "style-src", "form-action"):
        assert f"{rule} 'self'" in policy
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    for name, value in (
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ):
        assert answer.headers[name] == value
    assert "camera=()" in answer.headers["Permissions-Policy"]
    is_kept = path == "/static/dashboard.css"
    assert (answer.headers["Cache-Control"] == "no-store") is not is_kept


def test_what_fails_is_told_to_the_log_alone(
    anns: Calling, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "go_scheduler.http"):
        answer = anns.get("/probe/failing")
    assert answer.status_code == 500
    assert "ZeroDivisionError" not in answer.text
    assert "what only" not in answer.text
    [record] = caplog.records
    assert record.args is not None
    assert str(record.args[0]) in answer.text  # type: ignore[index]


def test_what_fails_once_it_is_being_answered_is_broken_off(anns: Calling) -> None:
    # Older versions of Starlette raise it as one of a group.
    with pytest.raises((ZeroDivisionError, ExceptionGroup)) as caught:
        anns.get("/probe/broken")
    assert "ZeroDivisionError" in repr(caught.value)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_have_written_is_text_on_a_page(anns: Calling, text: str) -> None:
    page = anns.get("/probe/hostile", params={"text": text}).text
    assert page.count(str(escape(text))) == 2
    assert "<img" not in page
    assert "<script>" not in page


def test_a_button_is_pressed_by_a_form_or_by_htmx(anns: Calling) -> None:
    assert press(anns).text == "pressed: mine"
    token = token_in(anns.get("/"))
    answer = press(anns, data={"csrf": token, "note": "elsewhere"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/?of=elsewhere")
    headers = {**OWN, "X-CSRF-Token": token, "HX-Request": "true"}
    answer = press(anns, data={"note": "elsewhere"}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["HX-Redirect"] == "/?of=elsewhere"


@pytest.mark.parametrize("token", ["", "0" * 64, "ü"])
def test_a_form_without_its_token_changes_nothing(anns: Calling, token: str) -> None:
    anns.get("/")
    answer = anns.post("/probe/press", data={"csrf": token}, headers=OWN)
    assert answer.status_code == 403
    assert "too old" in answer.text


def test_a_token_changes_nothing_in_another_session_or_for_somebody_else() -> None:
    callers = [ANN, Caller(subject="bob", scopes=ANN.scopes)]
    app = probing(authorize=lambda _: callers[0])
    with Calling(app) as browser, Calling(app) as other:
        data = {"csrf": token_in(browser.get("/")), "note": "mine"}
        assert other.post("/probe/press", data=data, headers=OWN).status_code == 403
        other.get("/")
        assert other.post("/probe/press", data=data, headers=OWN).status_code == 403
        del callers[0]
        assert browser.post("/probe/press", data=data, headers=OWN).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:81"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1"},
    ],
)
def test_a_form_of_another_page_changes_nothing(
    anns: Calling, headers: dict[str, str]
) -> None:
    answer = press(anns, headers=headers)
    assert answer.status_code == 403
    assert "not sent by a page of the dashboard" in answer.text


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1", "http://127.0.0.1"),
        ("LOCALHOST:8710", "http://localhost:8710"),
        ("[::1]:8710", "http://[::1]:8710"),
        ("tasks.example.org", "https://tasks.example.org"),
    ],
)
def test_a_browser_that_says_only_the_origin_is_believed(
    host: str, origin: str
) -> None:
    app = probing(authorize=as_ann)
    with Calling(app) as browser:
        headers = {"Host": host, "Origin": origin}
        page = browser.get("/", headers=headers)
        cookie = page.headers["Set-Cookie"].partition(";")[0]
        data = {"csrf": token_in(page), "note": "mine"}
        headers["Cookie"] = cookie
        answer = browser.post("/probe/press", data=data, headers=headers)
    assert answer.text == "pressed: mine"


def test_who_comes_without_tls_is_told_that_this_is_why(anns: Calling) -> None:
    headers = {"Host": "10.0.0.7:8710", "Origin": "http://10.0.0.7:8710"}
    answer = press(anns, headers=headers)
    assert answer.status_code == 403
    assert "by https alone" in answer.text


@pytest.mark.parametrize(
    ("host", "name", "more"),
    [
        ("tasks.example.org", "__Host-go_scheduler=", {"Secure"}),
        ("localhost:8710", "go_scheduler-8710=", set()),
        # What is no host is no error.
        *((host, "__Host-go_scheduler=", {"Secure"}) for host in ("[::1", "", "a b")),
    ],
)
def test_cookies_are_out_of_reach_for_scripts_and_other_sites(
    anns: Calling, host: str, name: str, more: set[str]
) -> None:
    cookie = anns.get("/", headers={"Host": host}).headers["Set-Cookie"]
    value, *attributes = cookie.split("; ")
    assert value.startswith(name)
    assert {*attributes} == {"HttpOnly", "Path=/", "SameSite=strict", *more}


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data; boundary=a", b"", 415),
        (FORM, b"a=%ff", 400),
        (FORM, b"a=\xff", 400),
        (FORM, b"a=1&" * 200, 400),
        (FORM, b"a" * 2**19, 413),
    ],
)
def test_what_is_no_form_is_refused(
    anns: Calling, kind: str, body: bytes, status: int
) -> None:
    headers = {**OWN, "Content-Type": kind}
    answer = anns.post("/probe/press", content=body, headers=headers)
    assert answer.status_code == status


async def _later(request: Request) -> Caller:
    return READER


CHANGES_NOTHING = "this dashboard changes nothing"


@pytest.mark.parametrize(
    ("options", "seen", "pressed"),
    [
        ({}, "anybody, False", CHANGES_NOTHING),
        ({"access": OpenAccess()}, "anybody, False", CHANGES_NOTHING),
        (
            {"access": OpenAccess(), "allow_changes": True},
            "anybody, True",
            "pressed: mine",
        ),
        (
            {"authorize": as_ann, "allow_changes": False},
            "ann, False",
            CHANGES_NOTHING,
        ),
        ({"authorize": lambda _: READER}, "reader, False", "runs:write"),
        ({"authorize": _later}, "reader, False", "runs:write"),
    ],
)
def test_who_calls_and_what_is_allowed_say_what_they_may(
    options: dict[str, Any], seen: str, pressed: str
) -> None:
    with Calling(probing(**options)) as browser:
        assert browser.get("/probe").text == f"{SECRET}, {seen}"
        assert pressed in press(browser).text
        is_reader = seen.startswith("reader")
        assert (browser.get("/probe/admin").status_code == 403) is is_reader


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("192.0.2.1", {}),
        ("127.0.0.1", {"Host": "tasks.example.org"}),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.1"}),
        ("127.0.0.1", {"Sec-Fetch-Site": "cross-site"}),
    ],
)
def test_without_access_nothing_is_shown_elsewhere(
    address: str, headers: dict[str, str]
) -> None:
    with Calling(probing(), address=address, headers=headers) as browser:
        for path in ("/", "/probe"):
            answer = browser.get(path)
            assert answer.status_code == 403
            assert SECRET not in answer.text


def test_whoever_comes_from_another_site_is_led_on_by_a_page_of_ours(
    anybodys: Calling,
) -> None:
    answer = anybodys.get("/probe?a=<b>&c=1", headers=ELSEWHERE)
    assert answer.status_code == 200
    assert SECRET not in answer.text
    assert 'content="0; url=/probe?a=%3Cb%3E&amp;c=1"' in answer.text
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(("answer", "status"), [(None, 403), (True, 500)])
def test_whoever_authorize_does_not_know_sees_nothing(
    answer: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Calling(probing(authorize=lambda _: answer)) as browser:
        found = browser.get("/probe")
    assert found.status_code == status
    assert SECRET not in found.text
    told = "authorize must return a Caller or None, not a value of" in caplog.text
    assert told is (status == 500)


def test_an_access_of_ones_own_is_asked() -> None:
    class Own:
        origins = ()

        async def authenticate(self, request: Request) -> Caller:
            if "x-user" not in request.headers:
                raise Problem(401, "unknown", "Who is it?", "say who you are")
            return READER

    with Calling(probing(access=Own())) as browser:
        assert browser.get("/probe").status_code == 401
        answer = browser.get("/probe", headers={"X-User": "reader"})
        assert answer.text == f"{SECRET}, reader, False"


def test_who_has_changed_what_is_told() -> None:
    heard: Queue[RequestEvent] = Queue()
    hear = hears(RequestEvent)(heard.put)
    with Scheduler(None, MemoryStore(), listeners=[hear]) as scheduler:
        with Calling(probing(scheduler, authorize=as_ann)) as browser:
            press(browser)
            press(browser, data={"csrf": "none"})
        for kind, status in ((RequestAllowed, 200), (RequestRefused, 403)):
            event = heard.get(timeout=FAILED_AFTER)
            assert isinstance(event, kind)
            assert (event.subject, event.path) == ("ann", "/probe/press")
            assert (event.scopes, event.status) == (("runs:write",), status)


def test_what_was_encrypted_for_one_purpose_is_good_for_no_other() -> None:
    cookies, until = SignedCookies(bytes(32)), START + seconds(1)
    value = cookies.encrypt("a", {"x": 1}, until)
    assert cookies.decrypt("a", value, START) == {"x": 1}
    assert cookies.decrypt("a", value, until) is None
    assert cookies.decrypt("b", value, START) is None
    assert SignedCookies(bytes([1] * 32)).decrypt("a", value, START) is None
    assert cookies.decrypt("a", "\u00e4", START) is None


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


def calling(**options: Any) -> Calling:
    return Calling(create_dashboard(Client(MemoryStore()), **options))


def made(path: str) -> str:
    """A path of something that is not there."""
    return path.replace("{id:uuid}", str(UUID(int=9)))


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
            to_sign_in = answer.headers.get("Location", "").startswith("/login")
            assert to_sign_in is (status == 303)


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
