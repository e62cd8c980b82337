"""Between rows and values: the contacts of nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.stores.sql.types import Unreadable, from_microseconds, to_microseconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row

_ANNOUNCED = ("queues", "names", "host", "pid", "version", "lease", "stopping")
CONTACT_COLUMNS = ("node", "contact_since", "seen_at", *_ANNOUNCED)


def read_contacts(rows: Sequence[Row[Any]]) -> list[NodeContact]:
    """The contacts of rows of ``CONTACT_COLUMNS``, but for what cannot be read."""
    return [
        NodeContact(announced=_announcement(node, *announced), since=since, until=until)
        for node, since, until, *announced in rows
        if Unreadable not in (type(node), type(since), type(until))
    ]


def write_announcement(announced: Announcement) -> Mapping[str, object]:
    """The columns of what a node tells, but for its id."""
    values = {name: getattr(announced, name) for name in _ANNOUNCED}
    return values | {
        "queues": _write_words(announced.queues),
        "names": _write_words(announced.names),
        "lease": None if announced.lease is None else to_microseconds(announced.lease),
    }


def _announcement(node: Any, queues: Any, names: Any, *others: Any) -> Announcement:
    host, pid, version, lease, stopping = others
    return Announcement(
        node=node,
        host=host,
        pid=pid,
        version=version,
        queues=_read_words(queues),
        names=_read_words(names),
        lease=from_microseconds(lease) if isinstance(lease, int) else None,
        stopping=bool(stopping),
    )


def _write_words(words: Sequence[str] | None) -> str | None:
    return None if words is None else json.dumps(list(words))


def _read_words(text: str | None) -> tuple[str, ...] | None:
    try:
        return tuple(map(str, json.loads(text)))  # type: ignore[arg-type]
    # A row that was written by other means than this package may hold anything.
    except (ValueError, TypeError):
        return None
