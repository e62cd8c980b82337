"""Paths of requests, with and without the root path of the application."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.types import Scope


def path_within(scope: Scope) -> str:
    """The path of a request without the root path."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    # Some proxies and servers strip the root path, and some do not.
    return path[len(root) :] if f"{path}/".startswith(f"{root}/") else path


def set_location(request: Request, response: Response, path: str) -> None:
    """Set the ``Location`` of an answer to a path of the application."""
    root: str = request.scope.get("root_path", "")
    response.headers["Location"] = root + path
