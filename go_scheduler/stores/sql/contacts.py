"""Between rows and values: the contacts of nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from go_scheduler.stores.messages import NodeContact
from go_scheduler.stores.sql.types import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

CONTACT_COLUMNS = ("node", "contact_since", "seen_at", "queues")


def read_contacts(rows: Sequence[Row[Any]]) -> list[NodeContact]:
    """The contacts of rows of ``CONTACT_COLUMNS``, but for what cannot be read."""
    return [
        NodeContact(node=node, since=since, until=until, queues=_read_queues(queues))
        for node, since, until, queues in rows
        if Unreadable not in (type(node), type(since), type(until))
    ]


def write_queues(queues: Sequence[str]) -> str:
    """The column of a node's queues."""
    return json.dumps(list(queues))


def _read_queues(text: str | None) -> tuple[str, ...] | None:
    try:
        return tuple(map(str, json.loads(text)))  # type: ignore[arg-type]
    # A row that was written by other means than this package may hold anything.
    except (ValueError, TypeError):
        return None
