"""Pages beside the API: served by the same server, under a path of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from starlette.responses import RedirectResponse

from go_scheduler.http.paths import path_within

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Pages(Protocol):
    """An application that is served beside the API."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        ...

    def stop(self) -> None:
        """End what goes on until somebody leaves: the server is about to stop."""
        ...


class Beside:
    """Serves pages under a path, to which the root leads, and the API elsewhere.

    Args:
        api: What answers all other requests.
        pages: What answers those below the path.
        path: Such as ``/dashboard``; empty: all of them are for the pages.
    """

    def __init__(self, api: ASGIApp, pages: ASGIApp, path: str) -> None:
        self._api = api
        self._pages = pages
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        root, path = scope.get("root_path", ""), path_within(scope)
        if path.startswith(f"{self._path}/"):
            below = {**scope, "root_path": root + self._path}
            await self._pages(below, receive, send)
        elif path in ("/", self._path) and scope["method"] in ("GET", "HEAD"):
            answer = RedirectResponse(f"{root}{self._path}/")
            await answer(scope, receive, send)
        else:
            await self._api(scope, receive, send)
