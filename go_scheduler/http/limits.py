"""Limits: of a request, of the calls of a caller, and of the workers that wait."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import NamedTuple, ParamSpec, TypeVar

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from go_scheduler.client.scheduling import WARNS
from go_scheduler.client.store_access import CARRIED, THREADS
from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import ConfigurationError, StoreUnavailableError
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.paths import path_within
from go_scheduler.http.problems import (
    CLOSE,
    Problem,
    headers_too_large,
    store_away,
    too_slow,
)
from go_scheduler.trace_context import TRACESTATE_LIMIT, joined

_P = ParamSpec("_P")
_T = TypeVar("_T")

_STUCK = timedelta(seconds=5)


class Threads(Executor):
    """A thread pool for calls of the store, with a bounded backlog.

    While the store does not answer, all threads wait for it. Further calls are refused
    at once; the caller may try again.

    Args:
        clock: Measures how long a call has been waiting.
        threads: How many calls run at once.
        calls: How many calls there may be, including those that wait for a thread.
    """

    def __init__(self, clock: Clock, *, threads: int, calls: int) -> None:
        self._clock = clock
        self._threads = threads
        self._calls = calls
        self._pool = ThreadPoolExecutor(threads, "go_scheduler http")
        self._lock = threading.Lock()
        self._taken = 0
        self._began: dict[int, timedelta] = {}

    def submit(
        self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Run a call on a thread.

        Raises:
            StoreUnavailableError: The backlog is full.
        """

        def run() -> _T:
            me = threading.get_ident()
            self._began[me] = self._clock.elapsed()
            try:
                return call(*args, **kwargs)
            finally:
                del self._began[me]

        with self._lock:
            if self._is_full():
                raise StoreUnavailableError("too many calls wait for the store")
            self._taken += 1
        try:
            future = self._pool.submit(run)
        except RuntimeError:
            raise StoreUnavailableError("the server is stopping") from None
        future.add_done_callback(self._let_go)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more; see ``Executor``."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _is_full(self) -> bool:
        if self._taken < self._threads:
            return False
        if self._taken >= self._calls:
            return True
        # Copied in one step: threads begin and end meanwhile.
        began = min([*self._began.values()], default=None)
        return began is not None and self._clock.elapsed() - began > _STUCK

    def _let_go(self, _: Future[_T]) -> None:
        with self._lock:
            self._taken -= 1


_JSON = ("application/json", "application/merge-patch+json")
_LINES = ("application/jsonl", "application/x-ndjson", *_JSON)
_WITH_BODY = ("POST", "PUT", "PATCH")

_OPEN_ENDED = {"/v1/jobs/import": _LINES, "/v1/work": _JSON}
"""Paths without limits of time and of the body's size, and their media types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate limit of one caller.

    Args:
        per_second: The calls per second in the long run.
        burst: The most calls at once.

    Raises:
        ConfigurationError: A value is below one.
    """

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if not (self.per_second >= 1 and self.burst >= 1):
            raise ConfigurationError(
                "a rate must be at least 1 per second, and a burst of at least 1:"
                f" {self.per_second}, {self.burst}"
            )


_RATE = Rate(per_second=5_000, burst=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a request.

    Attributes:
        headers: The most headers.
        header_bytes: The most bytes of all headers, names and values together.
        body_bytes: The most bytes of the body.
        read: How long the body may take to arrive; of an import, each part.
        import_lines: The most lines of one import.
        answer: How long the answer may take after that.
        threads: How many calls may wait for the store at once.
        calls: How many calls there may be, including those that wait for a thread.
        rate: The rate limit of one caller; None: there is none.
    """

    headers: int = 100
    header_bytes: int = 32 * 1024
    body_bytes: int = 1024 * 1024
    read: timedelta = timedelta(seconds=20)
    import_lines: int = 10_000_000
    answer: timedelta = timedelta(seconds=20)
    threads: int = 32
    calls: int = 1000
    rate: Rate | None = _RATE


class Limited:
    """Middleware that refuses requests beyond the limits.

    Args:
        app: Answers the other requests.
        limits: The limits.
        threads: The threads on which calls wait for the store.
    """

    def __init__(self, app: ASGIApp, limits: Limits, threads: Executor) -> None:
        self._app = app
        self._limits = limits
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        THREADS.set(self._threads)
        # The answer has the warnings about a schedule.
        WARNS.set(False)
        CARRIED.set(trace_context_of(scope))
        problem = self._refusal(scope) or await self._serve(scope, receive, send)
        if problem is not None:
            await problem.answer()(scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        """The problem of a request that is refused before its body is read."""
        limits, headers = self._limits, Headers(scope=scope)
        size = sum([len(name) + len(value) for name, value in headers.raw])
        if len(headers) > limits.headers or size > limits.header_bytes:
            return headers_too_large(
                f"at most {limits.headers} headers of together {limits.header_bytes}"
                " bytes are taken"
            )
        is_long = _length(headers) > limits.body_bytes
        if is_long and path_within(scope) not in _OPEN_ENDED:
            detail = f"a body may have {limits.body_bytes} bytes"
            title = "Content Too Large"
            return Problem(413, "too-large", title, detail, headers=CLOSE)
        return None

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send
    ) -> Problem | None:
        """Limit the size of the body, and the time for it and for the answer."""
        limits, now = self._limits, asyncio.get_running_loop().time
        is_open_ended = path_within(scope) in _OPEN_ENDED
        to_answer = None if is_open_ended else limits.answer.total_seconds()
        is_reading, size = _has_body(Headers(scope=scope)), 0

        def allow(seconds: float | None) -> None:
            if seconds is not None:
                timeout.reschedule(now() + seconds)
            elif timeout.when() is not None:
                timeout.reschedule(None)

        async def timed_receive() -> Message:
            nonlocal is_reading, size
            message = await receive()
            body = message.get("body", b"")
            size += len(body)
            if b"\0" in body and not is_open_ended:
                # JSON in UTF-16 or UTF-32, which the parser would accept.
                raise HTTPException(400)
            if size > limits.body_bytes and not is_open_ended:
                # FastAPI makes a 400 of any other exception while it reads a body.
                raise HTTPException(413, headers=CLOSE)
            if not message.get("more_body", False):
                is_reading = False
                allow(to_answer)
            return message

        async def timed_send(message: Message) -> None:
            # From now on the server limits the time: see ``serving.Bounds``. A route
            # that answers while it reads limits that itself.
            allow(None)
            await send(message)

        to_begin = limits.read.total_seconds() if is_reading else to_answer
        try:
            async with asyncio.timeout(to_begin) as timeout:
                await self._app(scope, timed_receive, timed_send)
        except TimeoutError:
            if not timeout.expired():
                raise
            if is_reading:
                return too_slow("the body took too long to arrive")
            return store_away(
                "the store did not answer in time; what was asked for may happen all"
                " the same"
            )
        return None


def wrong_media_type(scope: Scope) -> Problem | None:
    """The problem of a request whose body is of another media type."""
    headers = Headers(scope=scope)
    types = _OPEN_ENDED.get(path_within(scope), _JSON)
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if scope["method"] in _WITH_BODY and given not in types and _has_body(headers):
        return Problem(
            415,
            "media-type",
            "Unsupported Media Type",
            f"a body must say Content-Type: {types[0]}",
            headers={"Accept": ", ".join(types)},
        )
    return None


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or _length(headers) > 0


def _length(headers: Headers) -> int:
    given = headers.get("content-length", "0")
    # Python refuses to read a number of thousands of digits.
    return int(given[:20]) if given.isdecimal() and given.isascii() else 0


_MOST_CALLERS = 10_000


class _Bucket(NamedTuple):
    left: float
    at: timedelta


class Rates:
    """Token buckets, one for each caller; the least recent caller is forgotten first.

    Args:
        rate: The rate limit of each caller.
        clock: Measures time.
        most: How many callers are remembered.
    """

    def __init__(self, rate: Rate, clock: Clock, *, most: int = _MOST_CALLERS) -> None:
        self._rate = rate
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> timedelta:
        """Count a call.

        Returns:
            Zero; or how long the caller has to wait: then the call is not counted.
        """
        now = self._clock.elapsed()
        found = self._buckets.pop(caller, None)
        left = float(self._rate.burst)
        if found is not None:
            gained = (now - found.at).total_seconds() * self._rate.per_second
            left = min(left, found.left + gained)
        may = left >= 1
        self._buckets[caller] = _Bucket(left - 1 if may else left, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return ZERO if may else timedelta(seconds=(1 - left) / self._rate.per_second)


@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """The network of a caller without a name: an IPv4 address, or a /64 of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ip_network((parsed, 64), strict=False))


_AGAIN = timedelta(seconds=5)


class Waiting:
    """Limits the number of workers that wait.

    Args:
        each: The limit for the workers of one caller.
        all: The limit for the workers of all callers.
    """

    def __init__(self, *, each: int = 1_000, all: int = 10_000) -> None:
        self._each = each
        self._all = all
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of waiting workers of all callers."""
        return self._of.total()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """Count a worker as waiting within the context.

        Raises:
            Problem: 429, the limit is reached.
        """
        if self._of[caller.subject] >= self._each:
            raise too_many(
                f"{self._each} workers of this caller are waiting already", _AGAIN
            )
        if self._of.total() >= self._all:
            raise too_many(f"{self._all} workers are waiting already", _AGAIN)
        self._of[caller.subject] += 1
        try:
            yield
        finally:
            self._of[caller.subject] -= 1
            if not self._of[caller.subject]:
                del self._of[caller.subject]


def too_many(detail: str, wait: timedelta, *, field: str | None = None) -> Problem:
    """429: try again later, or change this field."""
    seconds = max(1, math.ceil(wait.total_seconds()))
    return Problem(
        429,
        "too-many",
        "Too many requests",
        detail,
        errors=[] if field is None else [{"field": field, "detail": detail}],
        headers={"Retry-After": str(seconds)},
    )


_HEADER = "traceparent"
# Later versions may have more fields after the flags.
_W3C = re.compile(
    r"(?!ff|00.{53}.)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
# A value does not end in a blank. Otherwise the expression would backtrack through
# every way to split a text that is no list.
_MEMBER = r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
_MEMBERS = re.compile(rf"{_MEMBER}(?:[ \t]*,[ \t]*{_MEMBER}){{0,31}}")


def trace_context_of(scope: Scope) -> str | None:
    """The trace context of a request; None: it has none, or an invalid one."""
    headers = Headers(scope=scope)
    found = headers.getlist(_HEADER)
    if len(found) != 1 or (match := _W3C.match(found[0])) is None:
        return None
    state = ",".join(headers.getlist("tracestate"))
    is_one = len(state) <= TRACESTATE_LIMIT and _MEMBERS.fullmatch(state)
    return joined(match[0], state if is_one else None)
