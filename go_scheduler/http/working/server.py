"""A server as a worker asks it: what is answered, or what went wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from go_scheduler.errors import ConfigurationError, StoreUnavailableError
from go_scheduler.http.remote_errors import error_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from types import TracebackType

    from go_scheduler.http.working.given import Given

    Token = str | Callable[[], str] | None

_PATIENCE = 30.0
_CONNECTIONS = 20
# Shorter than servers keep theirs: one that is closed at this instant costs a request.
_KEPT = 4.0
_JSON = {"Content-Type": "application/json"}


class AwayError(StoreUnavailableError):
    """The server cannot be reached, or says so: asking again may help.

    Attributes:
        seconds: After how many it wants to be asked again; 0: it does not say.
    """

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class LostError(Exception):
    """The run is not the worker's any more, or its instance has ended otherwise."""


class Server:
    """Asks a server, on connections that it keeps, within one event loop.

    Args:
        url: Of the server.
        token: Says who asks; one that is called is asked for it at first, and again
            when the server does not take it any more.

    Attributes:
        hands_out: Whether it has begun to answer who waits for work.
    """

    def __init__(self, url: str, token: Token) -> None:
        self.url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            auth=None if token is None else Bearer(token),
            timeout=_PATIENCE,
            limits=httpx.Limits(max_connections=_CONNECTIONS, keepalive_expiry=_KEPT),
            event_hooks={"response": [self._note_answer]},
        )
        self.hands_out = False

    async def __aenter__(self) -> Server:
        """Nothing yet: connections are opened as they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def take(
        self, queues: str, *, most: int, wait: float, worker: str
    ) -> Sequence[Mapping[str, Any]]:
        """Wait for work; answers the items, none if there was none in that time."""
        self.hands_out = False
        answer = await self._ask(
            "GET",
            "",
            params={"queues": queues, "max": most, "wait": wait, "worker": worker},
            timeout=httpx.Timeout(_PATIENCE, read=wait + _PATIENCE),
        )
        found: Sequence[Mapping[str, Any]] = []
        return found if answer is None else answer["work"]

    async def tell(self, given: Given, what: str, **body: object) -> Any:
        """Say something of a run; answers what the server says to it."""
        path = f"/{given.work.instance_id}/{what}"
        return await self._ask("POST", path, json={"token": given.token, **body})

    async def complete(self, completed: Sequence[bytes]) -> Sequence[Exception | None]:
        """Say of several runs that they have succeeded; answers for each, in order."""
        content = b'{"completed": [' + b",".join(completed) + b"]}"
        answer = await self._ask("POST", "/complete", content=content, headers=_JSON)
        told = [
            None
            if (wrong := each["problem"]) is None
            else _error(wrong["status"], wrong)
            for each in answer["answers"]
        ]
        if len(told) != len(completed):
            raise AwayError(
                f"{self.url}: it answered {len(told)} of {len(completed)} successes"
            )
        return told

    async def _note_answer(self, answer: httpx.Response) -> None:
        # Nothing but work is asked for by this method.
        if answer.request.method == "GET" and answer.is_success:
            self.hands_out = True

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """The body of the answer; None: it has none.

        Raises:
            AwayError: It may help to ask again.
            LostError: 409.
            GoSchedulerError: The server refuses it.
        """
        try:
            answer = await self._http.request(method, f"/v1/work{path}", **options)
            if answer.is_success:
                return answer.json() if answer.content else None
            wrong = answer.json() if _is_problem(answer) else {}
        except (httpx.HTTPError, ValueError) as error:
            raise AwayError(f"{self.url}: {error or type(error).__name__}") from error
        raise _error(answer.status_code, wrong, answer.headers.get("retry-after", ""))


class Bearer(httpx.Auth):
    """Says who asks, by a header."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._given = token
        self._token = token if isinstance(token, str) else None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send the token, and another one if there is one and this is refused."""
        if self._token is None:
            await self._ask()
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code == 401 and callable(self._given):
            await self._ask()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    async def _ask(self) -> None:
        assert callable(self._given)
        try:
            self._token = await asyncio.to_thread(self._given)
        except Exception as error:
            raise AwayError(f"token() raised {error!r}") from error


def checked_url(url: object) -> str:
    """The URL of a server, without what it ends with.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        parsed = httpx.URL(url)  # type: ignore[arg-type]
        is_one = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (httpx.InvalidURL, TypeError):
        is_one = False
    if not is_one:
        raise ConfigurationError(
            f"a server's URL is such as http://127.0.0.1:8710, not {url!r}"
        )
    return str(url).rstrip("/")


def _is_problem(answer: httpx.Response) -> bool:
    kind: str = answer.headers.get("content-type", "")
    return kind.startswith("application/problem+json")


def _error(status: int, wrong: Mapping[str, Any], after: str = "") -> Exception:
    if status == 409:
        return LostError(wrong.get("detail"))
    error = error_of(status, wrong, None)
    if status >= 500 or isinstance(error, StoreUnavailableError):
        return AwayError(str(error), float(after) if after.isdecimal() else 0.0)
    return error
