"""The trace that a request is part of, as its caller says it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from go_scheduler.trace_context import TRACESTATE_LIMIT, joined

if TYPE_CHECKING:
    from starlette.types import Scope

_HEADER = "traceparent"
# Later versions may say more behind the flags.
_W3C = re.compile(
    r"(?!ff|00.{53}.)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
# A value ends in no blank: else each could end in several ways, and what is no list
# would be tried in all of them.
_MEMBER = r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]"
_MEMBERS = re.compile(rf"{_MEMBER}(?:[ \t]*,[ \t]*{_MEMBER}){{0,31}}")


def trace_context_of(scope: Scope) -> str | None:
    """That of a request; None: it has none, or one that says nothing."""
    headers = Headers(scope=scope)
    found = headers.getlist(_HEADER)
    if len(found) != 1 or (match := _W3C.match(found[0])) is None:
        return None
    state = ",".join(headers.getlist("tracestate"))
    is_one = len(state) <= TRACESTATE_LIMIT and _MEMBERS.fullmatch(state)
    return joined(match[0], state if is_one else None)
