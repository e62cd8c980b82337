"""Who gets in with a key, to what, how often, and what is told of it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
import pytest

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import RequestAllowed, RequestEvent, RequestRefused, hears
from go_scheduler.http.access.authentication import OpenAccess
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.keys import ApiKey, new_key
from go_scheduler.http.access.rate_limits import Rate
from go_scheduler.http.limits import Limits
from tests.http.access.house import PATHS, probing, sent, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from fastapi import FastAPI

    from go_scheduler.testing import ManualClock

READ, WRITE, WORK = PATHS["jobs:read"], PATHS["jobs:write"], PATHS["workers"]
ONCE = Limits(rate=Rate(per_second=1, burst=1))
REALM = 'Bearer realm="go_scheduler"'


class Key:
    """A key, what lets it in, and the header that sends it."""

    def __init__(self, subject: str = "reports", **given: Any) -> None:
        new = new_key()
        self.text = new.key
        self.known = ApiKey(subject=subject, hash=new.kept, **given)
        self.header = {"Authorization": f"Bearer {new.key}"}


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


@asynccontextmanager
async def calling(
    app: FastAPI, headers: dict[str, str] | None = None, address: str = "127.0.0.1"
) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, client=(address, 1))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:
        yield client


def with_keys(*keys: Key, **options: Any) -> FastAPI:
    access = BearerAccess(keys=[each.known for each in keys])
    return probing(access=access, **options)


@pytest.mark.parametrize("scope", PATHS)
def test_each_scope_lets_in_to_its_own_and_an_admin_everywhere(scope: str) -> None:
    one, admin = Key(scopes=[scope]), Key("root", scopes=["admin"])
    app = with_keys(one, admin)

    async def asked() -> None:
        for needed, path in PATHS.items():
            async with calling(app, one.header) as client:
                answer = await client.post(path)
                may = scope in (needed, "admin")
                assert answer.status_code == (200 if may else 403)
                if not may:
                    assert answer.json()["type"] == "urn:go_scheduler:scope"
                    assert needed in answer.json()["detail"]
                    said = answer.headers["WWW-Authenticate"]
                    assert said == (
                        f'{REALM}, error="insufficient_scope", scope="{needed}"'
                    )
            async with calling(app, admin.header) as client:
                assert (await client.post(path)).status_code == 200

    run(asked)


@pytest.mark.parametrize("path", [READ, "/openapi.json", "/metrics", "/none"])
def test_without_a_token_nothing_is_answered_but_how_to_send_one(path: str) -> None:
    async def asked() -> None:
        async with calling(with_keys(Key(scopes=["admin"]))) as client:
            for headers in ({}, {"Authorization": "Basic YTpi"}, {"X-API-Key": "a"}):
                answer = await client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.headers["WWW-Authenticate"] == REALM
                assert answer.headers["Content-Type"] == "application/problem+json"

    run(asked)


def test_a_token_in_the_query_is_not_looked_at() -> None:
    key = Key(scopes=["admin"])

    async def asked() -> None:
        async with calling(with_keys(key)) as client:
            answer = await client.get(READ, params={"access_token": key.text})
            assert answer.status_code == 401

    run(asked)


@pytest.mark.parametrize(
    ("sent_as", "error"),
    [("gs_00000000_" + "A" * 43, "no such key"), ("eyJ.a.b", "only API keys")],
)
def test_another_token_is_refused_with_the_reason(sent_as: str, error: str) -> None:
    async def asked() -> None:
        headers = {"Authorization": f"bearer  {sent_as}"}
        async with calling(with_keys(Key(scopes=["admin"])), headers) as client:
            answer = await client.get(READ)
            assert answer.status_code == 401
            assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
            assert error in answer.headers["WWW-Authenticate"]
            assert error in answer.json()["detail"]

    run(asked)


def test_credentials_that_are_none_are_a_bad_request() -> None:
    key = Key(scopes=["admin"])
    twice = [("Authorization", f"Bearer {key.text}")] * 2

    async def asked() -> None:
        async with calling(with_keys(key)) as client:
            for headers in ([("Authorization", "Bearer a b")], twice):
                answer = await client.get(READ, headers=headers)
                assert answer.status_code == 400
                assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]

    run(asked)


def test_whether_it_lives_is_told_to_everybody_wherever_it_is_mounted() -> None:
    from fastapi import FastAPI

    host = FastAPI()
    host.mount("/tasks", with_keys(Key(scopes=["admin"])))

    async def asked() -> None:
        headers = {"Authorization": "Bearer whatever", "Origin": "http://evil.example"}
        async with calling(host, headers, address="10.0.0.7") as client:
            assert (await client.get("/tasks/healthz")).status_code == 200
            assert (await client.get(f"/tasks{READ}")).status_code == 401

    run(asked)


def test_no_socket_is_opened_for_anybody() -> None:
    told: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        told.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def asked() -> None:
        scope = {"type": "websocket", "path": READ, "headers": [], "query_string": b""}
        await probing()(scope, receive, send)

    run(asked)
    assert told == [{"type": "websocket.close", "code": 1008}]


def test_a_body_is_not_read_before_it_is_known_who_sends_it() -> None:
    key = Key(scopes=["jobs:write"])
    with served(lambda _: with_keys(key)) as port:
        status, _ = sent(port, f"POST {WRITE}", "Host: x", "Content-Length: 9999")
        assert status == 401


def test_a_restricted_caller_is_kept_from_other_queues() -> None:
    key = Key(scopes=["jobs:read"], queues=["mail"], owners=["shop"])

    async def asked() -> None:
        async with calling(with_keys(key), key.header) as client:
            answer = await client.get(READ, params={"queue": "mail"})
            assert answer.json() == {
                "subject": "reports",
                "scopes": ["jobs:read"],
                "queues": ["mail"],
                "owners": ["shop"],
            }
            answer = await client.get(READ, params={"queue": "sms"})
            assert answer.status_code == 403

    run(asked)


def test_a_key_that_calls_too_often_has_to_wait_and_others_have_not(
    clock: ManualClock,
) -> None:
    one, other = Key("a", scopes=["jobs:read"]), Key("b", scopes=["jobs:read"])
    app = with_keys(one, other, limits=ONCE, clock=clock)

    async def asked() -> None:
        async with calling(app) as client:
            assert (await client.get(READ, headers=one.header)).status_code == 200
            answer = await client.get(READ, headers=one.header)
            assert answer.status_code == 429
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["type"] == "urn:go_scheduler:too-many"
            assert (await client.get(READ, headers=other.header)).status_code == 200
            clock.advance(timedelta(seconds=1))
            assert (await client.get(READ, headers=one.header)).status_code == 200

    run(asked)


@pytest.mark.parametrize("access", [None, "keys"])
def test_those_without_a_name_are_counted_by_their_address(
    access: str | None, clock: ManualClock
) -> None:
    options: dict[str, Any] = {"limits": ONCE, "clock": clock}
    app = with_keys(Key(scopes=[]), **options) if access else probing(**options)

    async def asked() -> None:
        for address in ("127.0.0.1", "127.0.0.2"):
            async with calling(app, address=address) as client:
                assert (await client.get(READ)).status_code in (200, 401)
                assert (await client.get(READ)).status_code == 429

    run(asked)


def test_where_no_rate_is_set_everybody_calls_as_often_as_they_like() -> None:
    async def asked() -> None:
        async with calling(probing(limits=Limits(rate=None))) as client:
            for _ in range(5):
                assert (await client.get(READ)).status_code == 200

    run(asked)


def test_an_access_that_lets_nobody_in_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nobody could get in"):
        BearerAccess()


class TestPages:
    """A page of another site reads what is answered if it is on the list."""

    PAGE = "https://board.example.org"
    ASKS: ClassVar = {"Access-Control-Request-Method": "PUT"}

    @pytest.mark.parametrize("kind", ["open", "keys"])
    def test_a_page_on_the_list_may_ask_and_read(self, kind: str) -> None:
        key = Key(scopes=["jobs:read"])
        access = (
            OpenAccess([self.PAGE])
            if kind == "open"
            else BearerAccess(keys=[key.known], origins=[self.PAGE])
        )

        async def asked() -> None:
            async with calling(probing(access=access)) as client:
                page = {"Origin": self.PAGE}
                answer = await client.options(READ, headers=page | self.ASKS)
                assert answer.status_code == 200
                allowed = "access-control-allow-origin"
                assert answer.headers[allowed] == self.PAGE
                answer = await client.get(READ, headers=page | key.header)
                assert answer.status_code == 200
                assert answer.headers[allowed] == self.PAGE
                assert "access-control-allow-credentials" not in answer.headers
                other = {"Origin": "https://evil.example"}
                answer = await client.options(READ, headers=other | self.ASKS)
                assert allowed not in answer.headers

        run(asked)

    def test_without_a_list_no_page_may(self) -> None:
        key = Key(scopes=["jobs:read"])

        async def asked() -> None:
            async with calling(with_keys(key)) as client:
                page = {"Origin": self.PAGE}
                answer = await client.options(READ, headers=page | self.ASKS)
                assert answer.status_code == 401
                answer = await client.get(READ, headers=page | key.header)
                assert "access-control-allow-origin" not in answer.headers

        run(asked)

    @pytest.mark.parametrize(
        "wrong",
        [
            "*",
            "null",
            "example.org",
            "https://a.org/",
            "https://a.org/x",
            "ftp://a.org",
        ],
    )
    def test_what_no_browser_sends_is_refused(self, wrong: str) -> None:
        with pytest.raises(ConfigurationError, match="as browsers send it"):
            OpenAccess([wrong])
        with pytest.raises(ConfigurationError, match="must be a list"):
            OpenAccess(self.PAGE)


class TestTold:
    """Each request is told as an event; the log has writes and refusals."""

    @pytest.fixture
    def key(self) -> Key:
        return Key(scopes=["jobs:read", "jobs:write", "workers"])

    def told(
        self, clock: ManualClock, key: Key, asked: Sequence[tuple[str, str]]
    ) -> Sequence[RequestEvent]:
        found: list[RequestEvent] = []

        @hears(RequestEvent)
        def hear(event: RequestEvent) -> None:
            found.append(event)

        scheduler = Scheduler(None, MemoryStore(clock), clock=clock, listeners=[hear])
        app = with_keys(key, client=scheduler, clock=clock)

        async def ask() -> None:
            async with calling(app, key.header, address="10.0.0.7") as client:
                for method, path in asked:
                    await client.request(method, path)

        asyncio.run(ask())
        return found

    def test_who_did_what_and_whether_they_might(
        self, clock: ManualClock, key: Key
    ) -> None:
        allowed, refused = self.told(clock, key, [("POST", WRITE), ("POST", "/none")])
        assert allowed == RequestAllowed(
            subject="reports",
            address="10.0.0.7",
            method="POST",
            path=WRITE,
            scopes=("jobs:write",),
            status=200,
        )
        assert refused == RequestAllowed(
            subject="reports",
            address="10.0.0.7",
            method="POST",
            path="/none",
            scopes=(),
            status=404,
        )

    def test_a_refusal_says_why(self, clock: ManualClock, key: Key) -> None:
        [by_scope, by_queue] = self.told(
            clock, key, [("POST", PATHS["admin"]), ("GET", f"{READ}?queue=a")]
        )
        assert isinstance(by_scope, RequestRefused)
        assert (by_scope.subject, by_scope.status) == ("reports", 403)
        assert by_scope.scopes == ("admin",)
        assert by_scope.reason == "it needs admin, or other restrictions"
        assert isinstance(by_queue, RequestAllowed)

    def test_a_stranger_has_no_name(self, clock: ManualClock, key: Key) -> None:
        key.header = {"Authorization": "Bearer gs_secret"}
        [event] = self.told(clock, key, [("GET", READ)])
        assert isinstance(event, RequestRefused)
        assert (event.subject, event.address) == (None, "10.0.0.7")
        assert event.status == 401
        assert event.reason == "the token is not taken: there is no such key"

    def test_no_token_is_told_nor_written(
        self, clock: ManualClock, key: Key, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "go_scheduler")
        asked = [("POST", f"{WRITE}?access_token={key.text}"), ("GET", PATHS["admin"])]
        events = self.told(clock, key, asked)
        assert len(events) == 2
        assert key.text not in f"{events} {caplog.text}"

    def test_the_log_has_writes_and_refusals_and_neither_reads_nor_work(
        self, clock: ManualClock, key: Key, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "go_scheduler")
        asked = [("GET", READ), ("POST", WORK), ("POST", WRITE), ("GET", "/none%0AX")]
        self.told(clock, key, [*asked, ("POST", PATHS["admin"])])
        assert caplog.messages == [
            f"reports from 10.0.0.7: POST {WRITE} was answered by 200",
            f"reports from 10.0.0.7: POST {PATHS['admin']} was refused by 403:"
            " it needs admin, or other restrictions",
        ]
        assert caplog.records[0].__dict__["subject"] == "reports"

    def test_nobody_writes_a_line_of_their_own_nor_a_long_one(
        self, clock: ManualClock, key: Key, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "go_scheduler")
        self.told(clock, key, [("POST", f"/none%0A{'x' * 999}")])
        [line] = caplog.messages
        assert "\n" not in line
        assert len(line) < 300

    def test_nobody_fills_the_log_by_being_refused(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "go_scheduler")
        app = with_keys(Key(scopes=[]), clock=clock)

        async def asked() -> None:
            async with calling(app) as client:
                for _ in range(20):
                    await client.get(READ)
                clock.advance(timedelta(seconds=1))
                await client.get(READ)

        run(asked)
        assert len(caplog.messages) == 7
        assert caplog.messages[5] == "15 more such lines were left out"

    def test_what_fails_within_is_told_too(
        self, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "go_scheduler")
        app = probing(Client(MemoryStore(clock)), clock=clock)

        @app.post("/broken")
        async def broken() -> None:
            raise LookupError

        async def asked() -> None:
            async with calling(app) as client:
                assert (await client.post("/broken")).status_code == 500

        run(asked)
        assert "anybody from 127.0.0.1: POST /broken was answered by 500" in caplog.text
