"""Who is let in: this machine, or callers with keys; rate limits and the audit."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import RequestAllowed, RequestEvent, RequestRefused, hears
from go_scheduler.http.access.authentication import (
    ApiKey,
    ApiKeys,
    BearerAccess,
    OpenAccess,
    new_key,
)
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.loopback import is_safe_url
from go_scheduler.http.limits import Limits, Rate, Rates, Waiting
from go_scheduler.http.problems import Problem
from go_scheduler.testing.clock import START
from tests.case_tables import json_table
from tests.http.access.house import PATHS, Key, probing, sent, served, with_keys
from tests.http.serving import Calling, is_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.testing import ManualClock


LOCAL_PAGE = "http://localhost:3000"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(lambda _: probing(access=OpenAccess([LOCAL_PAGE]))) as port:
        yield port


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8710", "127.0.0.1", "127.9.9.9:80", "[::1]:8710"]
)
def test_a_name_of_this_machine_is_answered(port: int, host: str) -> None:
    status, answer = sent(port, f"GET {READ}", f"Host: {host}")
    assert status == 200
    assert '"subject":"anybody"' in answer
    assert all(scope in answer for scope in PATHS)


FOREIGN = (
    "evil.example localhost.evil.example 127.0.0.1.nip.io:8710 192.168.0.7 0.0.0.0"
    " [::] [::ffff:10.0.0.1] localhost:8710:1 localhost@evil.example 127.1"
)


@pytest.mark.parametrize("host", ["", *FOREIGN.split()])
def test_a_name_that_a_site_gives_this_machine_is_refused(port: int, host: str) -> None:
    for path in (READ, "/healthz", "/openapi.json", "/none"):
        status, answer = sent(port, f"GET {path}", f"Host: {host}")
        assert (status, "urn:go_scheduler:not-local" in answer) == (403, True)


def test_a_request_without_a_host_is_refused(port: int) -> None:
    status, _ = sent(port, f"GET {READ}")
    assert status in (400, 403)  # Some parsers of the server refuse it themselves.


@pytest.mark.parametrize(
    ("headers", "status"),
    json_table("http/access/origins"),
)
def test_only_own_or_named_pages_and_no_proxies_are_answered(
    port: int, headers: list[str], status: str
) -> None:
    given = [each.format(port=port) for each in headers]
    for method in ("GET", "POST"):
        request = f"{method} {WRITE}", f"Host: 127.0.0.1:{port}"
        found, answer = sent(port, *request, *given)
        assert f"{found}" == status
        assert ("urn:go_scheduler:not-local" in answer) is (status == "403")


@pytest.mark.parametrize(
    ("headers", "status"),
    json_table("http/access/body_types"),
)
def test_a_body_has_a_type_that_no_page_may_send_unasked(
    port: int, headers: list[str], status: str
) -> None:
    body = "{}" if "Content-Length: 2" in headers else ""
    found, answer = sent(port, f"POST {WRITE}", "Host: localhost", *headers, body=body)
    assert f"{found}" == status
    assert ("urn:go_scheduler:media-type" in answer) is (status == "415")


def test_another_machine_is_refused_wherever_the_server_is_bound() -> None:
    with Calling(probing(), address="10.0.0.7") as http:
        answer = http.get(READ)
    assert is_problem(answer, 403, "not-local")
    assert "only this machine" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://login.example.org/realms/main", True),
        ("http://127.0.0.1:9000", True),
        ("http://[::1]:9000/", True),
        ("http://login.example.org", False),
        ("ftp://localhost", False),
        ("https://", False),
        ("https://user@example.org", False),
        ("https://example.org/#a", False),
        ("https://[", False),
        (7, False),
    ],
)
def test_secrets_are_sent_by_https_or_to_this_machine(
    url: object, is_safe: bool
) -> None:
    assert is_safe_url(url) is is_safe


NEW = new_key()
SECOND = timedelta(seconds=1)


def caller(clock: ManualClock, text: str = NEW.key, **given: Any) -> Caller:
    """The caller with a key."""
    key = ApiKey(**{"subject": "reports", "hash": NEW.kept, "scopes": []} | given)
    return ApiKeys([key], clock).caller_of(text)


@pytest.mark.parametrize(
    ("given", "scopes"),
    [
        (["runs:write", "workers"], {"runs:write", "workers"}),
        (["admin"], {*SCOPES}),
        # The former name of these scopes together.
        (["jobs:run"], {"jobs:pause", "runs:write"}),
    ],
)
def test_a_key_is_taken_with_its_scopes(
    clock: ManualClock, given: list[str], scopes: set[str]
) -> None:
    found = caller(clock, scopes=given)
    assert (found.subject, found.scopes) == ("reports", scopes)


def test_a_key_is_random_and_kept_nowhere() -> None:
    assert NEW.key != new_key().key
    assert NEW.key.startswith("gs_")
    known = ApiKey(subject="reports", hash=NEW.kept, scopes=["admin"])
    assert NEW.key.rpartition("_")[2] not in NEW.kept
    assert NEW.key not in repr(NEW)
    assert NEW.kept.partition(":")[2] not in repr(known)


def test_a_key_expires(clock: ManualClock) -> None:
    until = START + SECOND
    assert caller(clock, expires_at=until).subject == "reports"
    clock.advance(SECOND)
    with pytest.raises(Problem, match="has expired"):
        caller(clock, expires_at=until)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"subject": ""}, "subject must have 1 to 200"),
        ({"hash": "gs_secret"}, "the key of reports must be what `go_scheduler key`"),
        ({"scopes": "admin"}, "scopes of reports must be a list"),
        ({"queues": "mail"}, "queues of reports must be a list"),
        ({"owners": "shop"}, "owners of reports must be a list"),
        ({"scopes": ["jobs:all"]}, "scopes of reports has 'jobs:all', which is no sc"),
        ({"expires_at": START.replace(tzinfo=None)}, "expires_at of reports"),
    ],
)
def test_a_wrong_key_is_refused(
    clock: ManualClock, wrong: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        caller(clock, **wrong)


READ, WRITE, WORK = PATHS["jobs:read"], PATHS["jobs:write"], PATHS["workers"]
ONCE = Limits(rate=Rate(per_second=1, burst=1))
REALM = 'Bearer realm="go_scheduler"'
CHALLENGE = "WWW-Authenticate"
ADMIN = Key("root", scopes=["admin"])
FORGED = ADMIN.text[:-1] + ("A" if ADMIN.text[-1] != "A" else "B")
LOCAL = "http://localhost"


@pytest.fixture(scope="module")
def http() -> Iterator[Calling]:
    with Calling(with_keys(ADMIN)) as http:
        yield http


@pytest.mark.parametrize("scope", PATHS)
def test_each_scope_opens_its_routes_and_admin_opens_all(scope: str) -> None:
    key = Key(scopes=[scope])
    with Calling(with_keys(key), headers=key.header) as http:
        for needed, path in PATHS.items():
            answer = http.post(path)
            if scope in (needed, "admin"):
                assert answer.status_code == 200
            else:
                assert is_problem(answer, 403, "scope")
                assert needed in answer.json()["detail"]
                challenge = f'{REALM}, error="insufficient_scope", scope="{needed}"'
                assert answer.headers[CHALLENGE] == challenge


@pytest.mark.parametrize("path", [READ, "/openapi.json", "/metrics", "/none"])
def test_without_a_token_every_path_is_closed(http: Calling, path: str) -> None:
    basic = {"Authorization": "Basic YTpi"}
    for headers in ({}, basic, {"X-API-Key": ADMIN.text}):
        answer = http.get(path, headers=headers, params={"access_token": ADMIN.text})
        assert is_problem(answer, 401, "unauthenticated")
        assert answer.headers[CHALLENGE] == REALM
        assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("given", "status", "slug", "error", "why"),
    [
        ([f"bearer  gs_00000000_{'A' * 43}"], 401, "token", "token", "no such key"),
        ([f"Bearer {FORGED}"], 401, "token", "token", "no such key"),
        (["bearer  eyJ.a.b"], 401, "token", "token", "only API keys"),
        (["Bearer a b"], 400, "credentials", "request", "neither a token nor a key"),
        ([f"Bearer {ADMIN.text}"] * 2, 400, "credentials", "request", "more than one"),
    ],
    ids=["unknown key", "other secret", "token", "malformed", "twice"],
)
def test_other_credentials_are_refused_with_the_reason(
    http: Calling, given: list[str], status: int, slug: str, error: str, why: str
) -> None:
    answer = http.get(READ, headers=[("Authorization", each) for each in given])
    assert is_problem(answer, status, slug)
    assert f'error="invalid_{error}"' in answer.headers[CHALLENGE]
    assert why in answer.json()["detail"]
    assert slug != "token" or why in answer.headers[CHALLENGE]


def test_health_is_open_to_all_wherever_the_application_is_mounted() -> None:
    host = FastAPI()
    host.mount("/tasks", with_keys(ADMIN))
    headers = {"Authorization": "Bearer whatever", "Origin": "http://evil.example"}
    with Calling(host, headers=headers, address="10.0.0.7") as http:
        assert http.get("/tasks/healthz").status_code == 200
        assert http.get(f"/tasks{READ}").status_code == 401


def test_no_websocket_is_opened() -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": READ, "headers": [], "query_string": b""}
    asyncio.run(probing()(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_body_is_read_only_after_authentication() -> None:
    with served(lambda _: with_keys(ADMIN)) as port:
        status, _ = sent(port, f"POST {WRITE}", "Host: x", "Content-Length: 9999")
        assert status == 401


def test_each_key_has_a_rate_of_its_own(clock: ManualClock) -> None:
    one, other = Key("a", scopes=["jobs:read"]), Key("b", scopes=["jobs:read"])
    with Calling(with_keys(one, other, limits=ONCE, clock=clock)) as http:
        assert http.get(READ, headers=one.header).status_code == 200
        answer = http.get(READ, headers=one.header)
        assert is_problem(answer, 429, "too-many")
        assert answer.headers["Retry-After"] == "1"
        assert http.get(READ, headers=other.header).status_code == 200
        clock.advance(timedelta(seconds=1))
        assert http.get(READ, headers=one.header).status_code == 200


@pytest.mark.parametrize("is_open", [True, False])
def test_callers_without_a_name_have_a_rate_by_their_network(
    is_open: bool, clock: ManualClock
) -> None:
    options: dict[str, Any] = {"limits": ONCE, "clock": clock}
    app = probing(**options) if is_open else with_keys(ADMIN, **options)
    first = [200, 429] if is_open else [401, 429]
    networks: list[tuple[str, list[int]]] = [("127.0.0.1", first), ("127.0.0.2", first)]
    if not is_open:
        # All addresses of an IPv6 network are one caller.
        networks += [("2001:db8::1", first), ("2001:db8::ffff:1", [429])]
        networks.append(("testclient", first))
    for address, statuses in networks:
        with Calling(app, address=address) as http:
            assert [http.get(READ).status_code for _ in statuses] == statuses


def test_a_rate_allows_a_burst_and_forgets_idle_callers(clock: ManualClock) -> None:
    rates = Rates(Rate(per_second=2, burst=3), clock, most=2)
    assert [rates.take("a") for _ in range(4)] == [ZERO] * 3 + [timedelta(seconds=0.5)]
    clock.advance(timedelta(hours=1))
    assert [rates.take("a") for _ in range(4)].count(ZERO) == 3
    for each in "bc":
        rates.take(each)
    assert rates.take("a") == ZERO  # the caller that called least lately


@pytest.mark.parametrize("rate", [(0, 1), (1, 0), (float("nan"), 1)])
def test_a_rate_is_at_least_one(rate: tuple[float, int]) -> None:
    with pytest.raises(ConfigurationError, match="at least 1 per second"):
        Rate(per_second=rate[0], burst=rate[1])


def test_the_number_of_waiting_workers_is_limited() -> None:
    a, b, c = (Caller(subject=each, scopes=frozenset()) for each in "abc")
    waiting = Waiting(each=1, all=2)
    for _ in range(2):
        with waiting.place(a), waiting.place(b):
            assert waiting.count == 2
            for caller, why in ((a, "of this caller"), (c, "2 workers are waiting")):
                with pytest.raises(Problem, match=why) as refused:
                    waiting.place(caller).__enter__()
                assert refused.value.headers == {"Retry-After": "5"}
        assert waiting.count == 0


def test_an_access_that_lets_nobody_in_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nobody could get in"):
        BearerAccess()


PAGE = {"Origin": "https://board.example.org"}
PREFLIGHT = {"Access-Control-Request-Method": "PUT"}
ALLOWED = "access-control-allow-origin"


@pytest.mark.parametrize("is_open", [True, False])
def test_only_a_page_of_a_named_site_may_ask_and_read(is_open: bool) -> None:
    sites = [PAGE["Origin"]]
    keys = BearerAccess(keys=[ADMIN.known], origins=sites)
    access = OpenAccess(sites) if is_open else keys
    with Calling(probing(access=access), url=LOCAL) as http:
        answer = http.options(READ, headers=PAGE | PREFLIGHT)
        assert (answer.status_code, answer.headers[ALLOWED]) == (200, *sites)
        answer = http.get(READ, headers=PAGE | ADMIN.header)
        assert (answer.status_code, answer.headers[ALLOWED]) == (200, *sites)
        assert "access-control-allow-credentials" not in answer.headers
        other = {"Origin": "https://evil.example"} | PREFLIGHT
        assert ALLOWED not in http.options(READ, headers=other).headers
    with Calling(with_keys(ADMIN)) as http:
        assert http.options(READ, headers=PAGE | PREFLIGHT).status_code == 401
        assert ALLOWED not in http.get(READ, headers=PAGE | ADMIN.header).headers


@pytest.mark.parametrize(
    "wrong",
    ["*", "null", "example.org", "https://a.org/", "https://a.org/x", "ftp://a.org"],
)
def test_an_origin_is_written_as_browsers_send_it(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="as browsers send it"):
        OpenAccess([wrong])
    with pytest.raises(ConfigurationError, match="must be a list"):
        OpenAccess(wrong)


class TestEvents:
    """Each request is an event; the log has changes and refusals."""

    @pytest.fixture(autouse=True)
    def _log(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "go_scheduler")

    @pytest.fixture
    def key(self) -> Key:
        return Key(scopes=["jobs:read", "jobs:write", "workers"])

    def events(
        self, clock: ManualClock, key: Key, *requests: tuple[str, str]
    ) -> list[RequestEvent]:
        found: list[RequestEvent] = []
        hear = hears(RequestEvent)(found.append)
        scheduler = Scheduler(None, MemoryStore(clock), clock=clock, listeners=[hear])
        app = with_keys(key, client=scheduler, clock=clock)
        with Calling(app, headers=key.header, address="10.0.0.7") as http:
            for method, path in requests:
                http.request(method, path)
        return found

    def test_an_event_says_who_did_what(self, clock: ManualClock, key: Key) -> None:
        known: dict[str, Any] = {"subject": "reports", "address": "10.0.0.7"}
        assert self.events(clock, key, ("POST", WRITE), ("POST", "/none")) == [
            RequestAllowed(
                **known, method="POST", path=WRITE, scopes=("jobs:write",), status=200
            ),
            RequestAllowed(**known, method="POST", path="/none", scopes=(), status=404),
        ]

    def test_a_refusal_says_why(self, clock: ManualClock, key: Key) -> None:
        by_scope, by_queue = self.events(
            clock, key, ("POST", PATHS["admin"]), ("GET", f"{READ}?queue=a")
        )
        assert isinstance(by_scope, RequestRefused)
        assert (by_scope.subject, by_scope.status) == ("reports", 403)
        assert by_scope.scopes == ("admin",)
        assert by_scope.reason == "it needs admin, or other restrictions"
        assert isinstance(by_queue, RequestAllowed)
        key.header = {"Authorization": "Bearer gs_secret"}
        [event] = self.events(clock, key, ("GET", READ))
        assert isinstance(event, RequestRefused)
        assert (event.subject, event.address) == (None, "10.0.0.7")
        assert event.status == 401
        assert event.reason == "the token is not taken: there is no such key"

    def test_the_log_has_changes_and_refusals_and_no_token(
        self, clock: ManualClock, key: Key, caplog: pytest.LogCaptureFixture
    ) -> None:
        events = self.events(
            clock,
            key,
            ("GET", READ),
            ("POST", WORK),
            ("POST", f"{WRITE}?access_token={key.text}"),
            ("GET", "/none%0AX"),
            ("POST", PATHS["admin"]),
        )
        assert caplog.messages == [
            f"reports from 10.0.0.7: POST {WRITE} was answered by 200",
            f"reports from 10.0.0.7: POST {PATHS['admin']} was refused by 403:"
            " it needs admin, or other restrictions",
        ]
        assert caplog.records[0].__dict__["subject"] == "reports"
        assert len(events) == 5
        assert key.text not in f"{events} {caplog.text}"
        caplog.clear()
        self.events(clock, key, ("POST", f"/none%0A{'x' * 999}"))
        [line] = caplog.messages
        assert "\n" not in line
        assert len(line) < 300

    def test_refusals_cannot_fill_the_log(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Calling(with_keys(ADMIN, clock=clock)) as http:
            for _ in range(20):
                http.get(READ)
            clock.advance(timedelta(seconds=1))
            http.get(READ)
        assert len(caplog.messages) == 7
        assert caplog.messages[5] == "15 more such lines were left out"

    def test_an_error_of_the_server_is_an_event_too(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = probing()

        @app.post("/broken")
        async def broken() -> None:
            raise LookupError

        with Calling(app) as http:
            assert http.post("/broken").status_code == 500
        assert "anybody from 127.0.0.1: POST /broken was answered by 500" in caplog.text
