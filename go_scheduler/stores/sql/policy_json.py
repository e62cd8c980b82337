"""Between a definition's policies, what is kept with them, and JSON.

A field that has its default is left out, and one that only a newer version knows cannot
be read.
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from go_scheduler.models import Pause, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.sql.types import from_microseconds, to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from go_scheduler.json import JSON


def dump_policies(definition: TaskDefinition) -> dict[str, JSON]:
    """Those that are not the default, as ``load_policies`` reads them."""
    return {
        name: _dump(value)
        for name in _READERS
        if (value := getattr(definition, name)) != _DEFAULTS[name]
    }


# Most definitions have those of others, or none.
@lru_cache(maxsize=1024)
def load_policies(text: str) -> Mapping[str, Any]:
    """Arguments of ``TaskDefinition``.

    Raises:
        Exception: They are not as ``dump_policies`` makes them.
    """
    return {name: _READERS[name](value) for name, value in json.loads(text).items()}


def _dump(value: Any) -> JSON:
    if isinstance(value, timedelta):
        return to_microseconds(value)
    if type(value) in _POLICIES:
        return {each.name: _dump(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Pause):
        return [value.since.isoformat(), value.until.isoformat(), value.note]
    plain: JSON = value
    return plain


def _reader(kind: type) -> Callable[[Mapping[str, Any]], object]:
    durations = {
        name
        for name, hint in get_type_hints(kind).items()
        if timedelta in (hint, *get_args(hint))
    }

    def read(stored: Mapping[str, Any]) -> object:
        return kind(
            **{
                # What may be a number as well is kept as one with a point.
                name: from_microseconds(value)
                if name in durations and isinstance(value, int)
                else value
                for name, value in stored.items()
            }
        )

    return read


def _read_pause(stored: Any) -> Pause:
    since, until, note = stored
    return Pause(
        since=datetime.fromisoformat(since),
        until=datetime.fromisoformat(until),
        note=note,
    )


_POLICIES = (RetryPolicy, CatchUp)
_READERS: Mapping[str, Callable[[Any], object]] = {
    "retry": _reader(RetryPolicy),
    "catch_up": _reader(CatchUp),
    "timeout": from_microseconds,
    "start_timeout": from_microseconds,
    "heartbeat_timeout": from_microseconds,
    "jitter": from_microseconds,
    "overlap": Overlap,
    "lock": str,
    "max_per_node": int,
    "max_queue": int,
    "when_full": str,
    "last_pause": _read_pause,
    "overdue": bool,
    "trace_context": str,
}
_DEFAULTS = {
    each.name: each.default for each in fields(TaskDefinition) if each.name in _READERS
}
