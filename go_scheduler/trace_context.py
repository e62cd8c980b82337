"""The context of a trace as one text: its ``traceparent``, and its ``tracestate``."""

from __future__ import annotations

TRACESTATE_LIMIT = 512
"""The most characters of a ``tracestate`` that are carried; a longer one is left."""


def joined(traceparent: str | None, tracestate: str | None) -> str | None:
    """Join the two into one text; None: there is no trace."""
    if not traceparent or not tracestate or len(tracestate) > TRACESTATE_LIMIT:
        return traceparent
    return f"{traceparent} {tracestate}"


def parted(context: str | None) -> tuple[str | None, str | None]:
    """Split a text into ``traceparent`` and ``tracestate``; None: it has none."""
    traceparent, _, tracestate = (context or "").partition(" ")
    return traceparent or None, tracestate or None
