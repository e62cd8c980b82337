"""How a server is asked by its client: requests, and what their answers stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from go_scheduler.client.pages import Page
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    StoreUnavailableError,
)
from go_scheduler.http.access.loopback import check_safe_url
from go_scheduler.http.remote_errors import error_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self
    from uuid import UUID

_Item = TypeVar("_Item")
_PATIENCE = 60.0


class RemoteRequests:
    """Asks a server, on connections that it keeps.

    Args:
        url: Of the server, such as ``http://127.0.0.1:8710``.
        token: What says who asks: an API key, or a token of the issuer; None: nobody.
        timeout: How many seconds an answer may take.
        transport: What sends the requests; None: the network.

    Raises:
        ConfigurationError: The URL is none, or the token would be sent in the open.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = _PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"a server's URL begins with https:// or http://, not {url!r}"
            )
        if token is not None:
            check_safe_url(url)
        self._url = url.rstrip("/")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self._http = httpx.Client(
                base_url=self._url,
                headers=headers,
                timeout=timeout,
                transport=transport,
            )
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"{url!r} is no URL: {error}") from None

    def __enter__(self) -> Self:
        """Keep connections open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close them."""
        self._http.close()

    def _page(
        self, path: str, asked: Mapping[str, Any], read: Callable[[Any], _Item]
    ) -> Page[_Item]:
        answer = self._ask("GET", path, asked=asked)
        return Page(map(read, answer["items"]), next=answer["next"])

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        asked: Mapping[str, Any] | None = None,
        id: UUID | None = None,
    ) -> Any:
        """What the server answers.

        Raises:
            GoSchedulerError: It is away, or refuses it.
        """
        sent = {} if body is None else {"json": body}
        response = self._response(method, path, asked=asked, id=id, **sent)
        return None if response.status_code == 204 else self._read(response)

    def _read(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise self._stranger() from None

    def _response(
        self,
        method: str,
        path: str,
        *,
        asked: Mapping[str, Any] | None = None,
        id: UUID | None = None,
        **sent: Any,
    ) -> httpx.Response:
        said = {name: each for name, each in (asked or {}).items() if each is not None}
        try:
            response = self._http.request(
                method, f"/v1{path}", params=said or None, **sent
            )
        except httpx.HTTPError as error:
            raise StoreUnavailableError(
                f"the server at {self._url} does not answer: {error}"
            ) from error
        if response.is_success:
            return response
        if response.is_redirect:
            raise self._stranger()
        try:
            problem = response.json()
        except ValueError:
            problem = None
        problem = problem if isinstance(problem, dict) else {}
        challenge = response.headers.get("WWW-Authenticate", "")
        raise error_of(response.status_code, problem, id, challenge)

    def _stranger(self) -> GoSchedulerError:
        return GoSchedulerError(f"{self._url} is no server of go_scheduler")
