"""What is read of a store to judge a schedule, each once and none without a bound."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from go_scheduler.client.nodes import node_info
from go_scheduler.models import DefinitionState
from go_scheduler.stores.base import CONTACTS_KEPT
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store

_PAGE = 1000


class Facts:
    """What is known of a schedule.

    Args:
        store: Read, and never written to.
        names: Those for which there is a handler; None: that is not known.
        most: So many definitions are read at most.
        expire_after: That of definitions without one.
    """

    def __init__(
        self,
        store: Store,
        *,
        names: Collection[str] | None,
        most: int,
        expire_after: timedelta,
    ) -> None:
        self.store = store
        self.names = names
        self.most = most
        self.expire_after = expire_after

    @cached_property
    def now(self) -> datetime:
        """The store's time when it was first asked for."""
        return self.store.now()

    @cached_property
    def nodes(self) -> Sequence[NodeInfo]:
        """Those that live and take on work."""
        contacts = self.store.list_contacts(within=CONTACTS_KEPT)
        found = [node_info(each, self.now) for each in contacts]
        return [each for each in found if each.takes_on]

    @cached_property
    def definitions(self) -> Sequence[TaskDefinition]:
        """The first of them, in the order of their ids."""
        found: list[TaskDefinition] = []
        while len(found) < self.most:
            limit = min(_PAGE, self.most - len(found))
            after = Position.of_definition(found[-1]) if found else None
            page = self.store.list_definitions(after=after, limit=limit)
            found += page
            if len(page) < limit:
                break
        return found

    @property
    def active(self) -> Sequence[TaskDefinition]:
        """Those of them that are to run."""
        return [
            each for each in self.definitions if each.state is DefinitionState.ACTIVE
        ]

    @cached_property
    def waiting(self) -> Sequence[TaskInstance]:
        """The first instances that wait for a node, of any definition."""
        return self.store.list_waiting(limit=_PAGE)
