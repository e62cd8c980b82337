"""Reads the W3C trace context of a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from go_scheduler.trace_context import TRACESTATE_LIMIT, joined

if TYPE_CHECKING:
    from starlette.types import Scope

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
