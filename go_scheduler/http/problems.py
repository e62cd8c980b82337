"""Errors as problem details of RFC 9457."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypedDict
from uuid import uuid4

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from go_scheduler.checks import parse_id
from go_scheduler.errors import (
    ClaimLostError,
    ConfigurationError,
    ConflictError,
    GoSchedulerError,
    QueueFullError,
    SchedulerStateError,
    StoreError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
    UnknownTriggerError,
)
from go_scheduler.formatting import shown
from go_scheduler.pydantic_messages import worded

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = {"Retry-After": "2"}
"""The header of an answer that asks to try again soon."""
CLOSE = {"Connection": "close"}
"""The header of the last answer on a connection."""

_CONDITIONS = ("if-match", "if-none-match")
_LOG = logging.getLogger("go_scheduler.http")
_LONGEST = 2000
_MOST_ERRORS = 20


class FieldError(TypedDict):
    """What is wrong with one field."""

    field: str
    detail: str


class Problem(Exception):
    """An error that is answered as problem details.

    Args:
        status: The status of the answer.
        slug: The end of the problem's ``type``.
        title: The kind of problem, the same each time.
        detail: What went wrong this time, and what can be done about it.
        errors: The fields that are wrong.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        status: int,
        slug: str,
        title: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.title = title
        self.detail = detail
        self.errors = errors
        self.headers = headers

    @property
    def body(self) -> dict[str, object]:
        """The body of the answer."""
        body: dict[str, object] = {
            "type": f"urn:go_scheduler:{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": _sendable(self.detail),
        }
        if self.errors:
            body["errors"] = [
                {"field": _sendable(each["field"]), "detail": _sendable(each["detail"])}
                for each in self.errors[:_MOST_ERRORS]
            ]
        return body

    def answer(self) -> Response:
        """The answer."""
        return JSONResponse(
            self.body, self.status, headers=self.headers, media_type=MEDIA_TYPE
        )


def not_allowed(
    slug: str, detail: str, *, headers: Mapping[str, str] | None = None
) -> Problem:
    """403: the caller may not send this request."""
    return Problem(403, slug, "Not allowed", detail, headers=headers)


def key_taken() -> Problem:
    """409: what has the key is nothing that the caller may see."""
    return Problem(
        409,
        "key",
        "Its key is taken",
        "something else has this key, or its type has changed: take another key, or"
        " ask again in a moment",
    )


def store_away(detail: str) -> Problem:
    """503: the store does not answer, or not in time."""
    title = "The store cannot be reached"
    return Problem(503, "store-unavailable", title, detail, headers=RETRY_AFTER)


def headers_too_large(detail: str) -> Problem:
    """431; the connection is closed."""
    title = "Request Header Fields Too Large"
    return Problem(431, "headers", title, detail, headers=CLOSE)


def too_slow(detail: str) -> Problem:
    """408: the request took too long to arrive; the connection is closed."""
    return Problem(408, "too-slow", "Request Timeout", detail, headers=CLOSE)


def invalid(field: str, detail: str) -> Problem:
    """The problem of one wrong field.

    Args:
        field: Its path in the body, or its name in the query.
        detail: What was expected and found, and what can be done.
    """
    return _invalid([{"field": field, "detail": detail}])


def mismatch(error: ValidationError) -> Problem:
    """The problem of a value that does not fit a model, read outside a body."""
    found = error.errors(include_url=False)
    return _of_validation([{**each, "loc": ("body", *each["loc"])} for each in found])


def problem_of(error: GoSchedulerError, *, conditional: bool = False) -> Problem:
    """The problem that an error of this package is answered by.

    Args:
        error: The error.
        conditional: Whether the request named a revision.
    """
    if isinstance(error, StoreError):
        return store_away(
            "the store does not answer at the moment, or is too busy: try again"
        )
    if isinstance(error, ConflictError) and conditional:
        return Problem(412, "revision", "It has been changed", str(error))
    for kind, (status, slug, title) in _KINDS.items():
        if isinstance(error, kind):
            headers = RETRY_AFTER if status in (429, 503) else None
            # Callers need not know which packages could not be imported here.
            detail = str(error).partition("; these announced")[0]
            return Problem(status, slug, title, detail, headers=headers)
    raise error


_KINDS: Mapping[type[GoSchedulerError], tuple[int, str, str]] = {
    ConfigurationError: (422, "invalid", "Something is wrong with what was sent"),
    UnknownTriggerError: (422, "unknown-trigger", "No such kind of trigger"),
    TaskDefinitionNotFoundError: (404, "no-definition", "No such definition"),
    TaskInstanceNotFoundError: (404, "no-instance", "No such instance"),
    TaskInstanceStateError: (409, "state", "Not possible in its state"),
    QueueFullError: (429, "queue-full", "Too many of it wait"),
    ConflictError: (409, "revision", "It has been changed"),
    ClaimLostError: (409, "claim-lost", "The claim is lost"),
    SchedulerStateError: (503, "stopping", "The server is stopping"),
}


def answer_problems(app: FastAPI) -> None:
    """Have an application answer every error by a problem."""

    async def known(request: Request, error: Exception) -> Response:
        return of_error(request, error).answer()

    for kind in (Problem, GoSchedulerError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, known)
    app.add_middleware(Unexpected)


class Unexpected:
    """Middleware that logs an unexpected error once, and answers 500.

    Args:
        app: Answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        started = False

        async def note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception:
            # The server can only break off an answer that has begun.
            if started or scope["type"] != "http":
                raise
            id = uuid4()
            _LOG.exception("a request failed, and was told the id %s", id)
            problem = Problem(
                500,
                "unexpected",
                "Something unexpected happened",
                f"the server's log says more of it, by the id {id}",
            )
            await self.answer(scope, problem)(scope, receive, send)

    def answer(self, scope: Scope, problem: Problem) -> Response:
        """The answer of a problem."""
        return problem.answer()


def of_error(request: Request, error: Exception) -> Problem:
    """The problem of any error that a route has raised."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, TaskDefinitionNotFoundError):
        given = str(request.path_params.get("id", error.definition_id))
        if parse_id(given) is None:
            status, slug, title = _KINDS[TaskDefinitionNotFoundError]
            detail = f"no task definition has the key {shown(given)}"
            return Problem(status, slug, title, detail)
    if isinstance(error, GoSchedulerError):
        return problem_of(
            error,
            conditional=any(each in request.headers for each in _CONDITIONS),
        )
    if isinstance(error, RequestValidationError):
        return _of_validation(error.errors())
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    slug, detail = _OF_STATUS.get(error.status_code, ("http", error.detail))
    return Problem(error.status_code, slug, title, detail, headers=error.headers)


_OF_STATUS = {
    400: ("malformed", "the body cannot be read as JSON in UTF-8"),
    404: ("no-path", "there is nothing under this path: /openapi.json has those known"),
    405: ("method", "this path does not take this method: see the header Allow"),
    413: ("too-large", "the body is larger than this server takes"),
}


def _of_validation(errors: Iterable[Mapping[str, Any]]) -> Problem:
    found = list(errors)
    if any(each["type"] == "json_invalid" for each in found):
        return Problem(400, "malformed", "Bad Request", _OF_STATUS[400][1])
    return _invalid([each for error in found for each in field_errors(error)])


def field_errors(error: Mapping[str, Any]) -> Iterator[FieldError]:
    """The wrong fields of one error of pydantic."""
    # The first key is "body" or "query"; keys in braces are tags of a union.
    _, *path = error["loc"]
    keys = [key for each in path if (key := str(each))[:1] + key[-1:] != "{}"]
    if error["type"] != "unknown":
        yield {"field": ".".join(keys), "detail": worded(error)}
        return
    for name, detail in error["ctx"]["fields"].items():
        yield {"field": ".".join([*keys, name]), "detail": detail}


def _invalid(errors: Sequence[FieldError]) -> Problem:
    status, slug, title = _KINDS[ConfigurationError]
    first = errors[0]
    detail = (
        f"{first['field']}: {first['detail']}" if first["field"] else first["detail"]
    )
    return Problem(status, slug, title, detail, errors=errors)


def _sendable(text: str) -> str:
    """A text without lone surrogates, which UTF-8 cannot encode; shortened."""
    sendable = text.encode(errors="backslashreplace").decode()
    return sendable if len(sendable) <= _LONGEST else f"{sendable[:_LONGEST]}..."
