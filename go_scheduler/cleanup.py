"""Loop 3, the cleanup: deletes what is finished and past its retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Retention

_BATCH = 500


class Cleanup:
    """Deletes finished instances, and then the completed definitions without any.

    Args:
        store: Where to delete.
        retention: How long what is over is kept.
    """

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    def tick(self) -> timedelta | None:
        """Delete one batch. If it was full, the next tick follows at once."""
        deleted = self._store.delete_finished(self._retention, limit=_BATCH)
        return ZERO if deleted >= _BATCH else None
