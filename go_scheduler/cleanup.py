"""Loop 3, the cleanup: deletes what is finished and past its retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Retention
    from go_scheduler.ticking.shares import Shares

_BATCH = 500
# So many ticks in a row are left to another node.
_MOST_LEFT_OUT = 7


class Cleanup:
    """Deletes finished instances, and then the completed definitions without any.

    Args:
        store: Where to delete.
        retention: How long what is over is kept.
        shares: Say whether this is left to another node.
    """

    def __init__(self, store: Store, retention: Retention, shares: Shares) -> None:
        self._store = store
        self._retention = retention
        self._shares = shares
        self._to_leave_out = 0

    def tick(self) -> timedelta | None:
        """Delete one batch. If it was half full, the next tick follows at once."""
        if self._to_leave_out and not self._shares.is_first("cleanup"):
            self._to_leave_out -= 1
            return None
        deleted = self._store.delete_finished(self._retention, limit=_BATCH)
        # Rows that somebody else has locked, or has deleted meanwhile, are left out.
        is_full = 2 * deleted > _BATCH
        self._to_leave_out = 0 if is_full else _MOST_LEFT_OUT
        return ZERO if is_full else None
