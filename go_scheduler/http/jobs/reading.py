"""What stands in a line of an import (pure)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Never

from pydantic import ValidationError

from go_scheduler.http.bodies.jobs import JobBody
from go_scheduler.http.jobs.known_types import check_type_name
from go_scheduler.http.problems import FieldError, Problem, mismatch

if TYPE_CHECKING:
    from go_scheduler.http.jobs.lines import Line


def read(line: Line, *, longest: int) -> JobBody | Problem:
    """The job of a line, or what is wrong with it.

    Args:
        line: Which.
        longest: The most bytes that it may have.
    """
    if line.data is None:
        return _unreadable(
            f"a line has at most {longest} bytes: store large payloads"
            " elsewhere and import references to them"
        )
    try:
        text = line.data.decode()
    except UnicodeDecodeError as error:
        return _unreadable(
            f"it is not UTF-8 from its byte {error.start + 1} on: save"
            " the file as UTF-8"
        )
    try:
        value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        return _unreadable(
            f"it is no JSON: {error.msg} at column {error.colno}; each"
            " line is a whole object"
        )
    except (ValueError, RecursionError):
        return _unreadable(
            "it is JSON that nobody keeps: nested too deep, NaN, or a"
            " number of too many digits"
        )
    try:
        body = JobBody.model_validate(value)
        check_type_name(body.type)
    except ValidationError as error:
        return mismatch(error)
    except Problem as problem:
        return problem
    return body


def _refuse(_: str) -> Never:
    raise ValueError


def _unreadable(detail: str) -> Problem:
    errors: tuple[FieldError] = ({"field": "", "detail": detail},)
    return Problem(400, "malformed", "The line cannot be read", detail, errors=errors)
