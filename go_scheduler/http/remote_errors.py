"""A server's problems as errors of this package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

_STATE = re.compile(r"task instance \S+ is (\w+): (.+)", re.DOTALL)
_SCOPE = re.compile(r'\bscope="([^"]+)"')
_AWAY = (408, 429, 502, 503, 504)
_WRONG = (400, 413, 415, 422)


class NotAllowedError(GoSchedulerError):
    """The caller is not authenticated, or may not do this."""


class CallerError(NotAllowedError):
    """The token is missing, not taken, or does not allow the request.

    Attributes:
        scope: The missing scope, if that is the reason.
    """

    def __init__(self, detail: str, scope: str | None = None) -> None:
        super().__init__(detail)
        self.scope = scope


class RefusedError(GoSchedulerError):
    """The server refused a request."""


def error_of(
    status: int, problem: Mapping[str, Any], id: UUID | None, challenge: str = ""
) -> Exception:
    """The error of a problem that a server has answered.

    Args:
        status: The status of the answer.
        problem: Its body; empty if it is no problem details.
        id: The id of the definition or instance in the request, if there is one.
        challenge: The header ``WWW-Authenticate``, which names the needed scope.
    """
    slug = str(problem.get("type", "")).rpartition(":")[2]
    detail = str(problem.get("detail") or f"the server answers {status}")
    if slug == "queue-full":
        return RefusedError(detail)
    if status in _AWAY:
        return StoreUnavailableError(f"the server: {detail}")
    if status in (401, 403):
        if slug == "not-local":
            return NotAllowedError(detail)
        scope = _SCOPE.search(challenge)
        return CallerError(detail, scope[1] if scope else None)
    if status in _WRONG:
        return ConfigurationError(detail)
    if id is not None and slug == "no-definition":
        return TaskDefinitionNotFoundError(id)
    if id is not None and slug == "no-instance":
        return TaskInstanceNotFoundError(id)
    if id is not None and slug == "state" and (found := _STATE.fullmatch(detail)):
        return TaskInstanceStateError(id, found[1], found[2])
    return RefusedError(detail)
