"""Paths within the application, wherever a proxy or another application has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.types import Scope


def path_within(scope: Scope) -> str:
    """The path of a request as the routes have it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    # Some proxies and servers take the root off, and some do not.
    return path[len(root) :] if f"{path}/".startswith(f"{root}/") else path


def path_from_outside(request: Request, path: str) -> str:
    """A path of the application's as its callers write it, wherever it is mounted."""
    return f"{request.scope.get('root_path', '')}{path}"
