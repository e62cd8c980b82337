"""Rows of the PostgreSQL family whose time is over, and how they are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import LONGEST
from go_scheduler.models.queue_stats import HOUR, MINUTE
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from go_scheduler.stores.messages import Retention
    from go_scheduler.stores.postgresql.executing import Statements

_KEPT = {
    "kept": CONTACTS_KEPT,
    "minutes_kept": STATS_KEPT[MINUTE],
    "hours_kept": STATS_KEPT[HOUR],
}


class Deletions:
    """Deletes instances that ended long ago, then completed definitions without any.

    Args:
        statements: Executes them.
    """

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def delete(
        self,
        retention: Retention,
        limit: int,
        *,
        forget: Callable[[int], None],
    ) -> int:
        """Delete, as ``Store.delete_finished``.

        Args:
            retention: For how long they are kept.
            limit: Most rows to delete.
            forget: Forgets ids, if all instances are gone that are to go; called with
                how many definitions went, whose ids may be remembered now.
        """
        older_than = min(retention.ended, LONGEST)
        failed = min(retention.failed, LONGEST)
        left = limit - self._instances("delete_ended", older_than, limit)
        if left:
            left -= self._instances("delete_failed", failed, left)
        if left:
            completed = self._definitions("delete_completed", older_than, left)
            left -= completed
            # Rows that a delete has left behind for their history count for nobody.
            self._definitions("delete_deleted", older_than, limit)
            self._statements.run(Lane.BY_TIME, "delete_contacts", _KEPT)
            forget(completed)
        return limit - left

    def _instances(self, name: str, older_than: timedelta, limit: int) -> int:
        sweep = self._statements.sweep((name, older_than))
        parameters = {
            "older_than": older_than,
            "back": sweep.back + older_than,
            "limit": limit,
        }
        rows = self._statements.scan(
            sweep,
            lambda: self._statements.run(Lane.BY_TIME, name, parameters),
            limit=limit,
        )
        if len(rows) == limit:
            last = max(row.completed_at for row in rows)
            sweep.go_on(rows[0].now - last - older_than)
        return len(rows)

    def _definitions(self, name: str, older_than: timedelta, limit: int) -> int:
        parameters = {"older_than": older_than, "limit": limit}
        return len(self._statements.run(Lane.BY_TIME, name, parameters))
