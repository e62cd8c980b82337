"""Contacts: which nodes were there, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.sql.contacts import read_contacts, write_announcement
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from go_scheduler.stores.messages import Announcement, NodeContact
    from go_scheduler.stores.postgresql.executing import Statements


class Contacts:
    """Notes and reads when nodes were in contact with the store.

    Args:
        statements: Executes what does so.
    """

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def note(self, announced: Announcement, unbroken: timedelta) -> None:
        """Note one, as ``Store.note_contact``."""
        parameters = {
            "node": announced.node,
            "unbroken": unbroken,
            **write_announcement(announced),
        }
        self._statements.run(Lane.RENEWALS, "note_contact", parameters)

    def within(self, span: timedelta) -> Sequence[NodeContact]:
        """Read those of that time, as ``Store.list_contacts``."""
        return read_contacts(
            self._statements.run(Lane.BY_TIME, "list_contacts", {"within": span})
        )
