"""The trace that a request is part of, as its caller says it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Scope

_HEADER = "traceparent"
# Later versions may say more behind the flags.
_W3C = re.compile(
    r"(?!ff|00.{53}.)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def traceparent_of(scope: Scope) -> str | None:
    """That of a request; None: it has none, or one that says nothing."""
    found = Headers(scope=scope).getlist(_HEADER)
    if len(found) != 1 or (match := _W3C.match(found[0])) is None:
        return None
    return match[0]
