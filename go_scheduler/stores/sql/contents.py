"""The contents of definitions that have been read, for as long as they are current."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.stores.sql.rows import read_contents
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from typing import Any
    from uuid import UUID

    from sqlalchemy import Row

    from go_scheduler.stores.sql.rows import Contents, ContentsRow

_MOST_BYTES = 32 * 1024 * 1024
_BYTES_OF_AN_ENTRY = 1024


class _Entry(NamedTuple):
    revision: object
    contents: Contents
    size: int


class ContentsCache:
    """Contents by key and revision, up to some 32 MiB of text.

    Where a revision can come again, another value stands for it that changes with them.

    Only what is committed may be put in: the loops go by what they find here.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[UUID, _Entry] = OrderedDict()
        self._size = 0

    def get(self, key: UUID, revision: object) -> Contents | None:
        """The contents that a definition had at this revision, if they are known."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.revision != revision:
                return None
            self._entries.move_to_end(key)
            return entry.contents

    def put(
        self, key: UUID, revision: object, row: ContentsRow | Row[Any] | None
    ) -> Contents:
        """Read a row of ``task_contents``, and remember its contents."""
        contents = read_contents(row)
        if isinstance(contents.trigger, UnknownTrigger):
            # An unknown trigger may become known: its class may still be imported, or
            # its row be written anew.
            return contents
        assert row is not None, "what is missing has an unknown trigger"
        self.keep(key, revision, contents, row)
        return contents

    def keep(
        self,
        key: UUID,
        revision: object,
        contents: Contents,
        row: ContentsRow | Row[Any],
    ) -> None:
        """Remember the contents of a row of ``task_contents``."""
        size = _BYTES_OF_AN_ENTRY + len(row.metadata) + len(row.trigger_state)
        with self._lock:
            self._remove(key)
            self._entries[key] = _Entry(revision, contents, size)
            self._size += size
            while self._size > _MOST_BYTES:
                self._remove(next(iter(self._entries)))

    def _remove(self, key: UUID) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._size -= entry.size
