"""What users look at: lists and numbers that take no longer where there is much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import check_type
from go_scheduler.client.arguments import (
    check_limit,
    check_searched,
    checked_most,
    checked_names,
    one_of,
)
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.offered import backlog_of
from go_scheduler.client.pages import Order, Page, cursor_of, read_cursor
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.models import COUNTED, Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from go_scheduler.models import (
        Backlog,
        Counted,
        State,
        TaskDefinition,
        TaskInstance,
    )


class Views(StoreAccess):
    """Reads what people look at, such as the pages of a dashboard.

    Each call reads a bounded number of rows from the end of an index, however many
    there are.
    """

    def counts_up_to(
        self,
        most: int = COUNTED,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, Counted]:
        """How many instances are in each state, as far as they have to be counted.

        ``counts`` counts all, and takes as long as there are many.

        Args:
            most: So many; 1 to 1,000,000.
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.

        Returns:
            Every state has a number; one that says ``more`` may be of a state of which
            there are fewer than ``most``, amid more of others that ended. Of some
            queues or owners it is of those that are among so many of all, and a store
            may look at 5,000 at most.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        return self._ready().counts_up_to(
            checked_most(most),
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
        )

    acounts_up_to = awaitable(counts_up_to)
    """Await what ``counts_up_to`` does; see there."""

    def backlog(
        self, most: int = COUNTED, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and no node has taken, by queue.

        So is what nodes have given back, as none has a handler for it, say, until it is
        due again: among the 500 that are due first. What is paused, or waits for
        another instance to end, is not counted.

        Args:
            most: So many are counted of a queue; 1 to 1,000,000.
            queues: Of these alone; None: of all.

        Returns:
            At most a hundred queues in which anything is due, by their names.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        return backlog_of(
            self._ready(), checked_most(most), queues=checked_names("queues", queues)
        )

    abacklog = awaitable(backlog)
    """Await what ``backlog`` does; see there."""

    def list_ended(
        self,
        outcome: Outcome | str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that ended in one way, the last first.

        Args:
            outcome: How they ended, such as ``"failed"``.
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            after: They come after a page: its ``next``.
            limit: The most to return, 1 to 1,000.

        Returns:
            They, in the order of ``completed_at`` and id, backwards. A page that is
            not full, or empty, may have a ``next`` all the same: of the last
            thousand that ended these are all.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        order = Order.INSTANCES_ENDED_LAST_FIRST
        found = self._ready().list_ended(
            one_of(Outcome, outcome),
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            before=read_cursor(after, order),
            limit=limit,
        )
        after = None if found.next is None else cursor_of(order, found.next)
        return Page(found.found, next=after)

    alist_ended = awaitable(list_ended)
    """Await what ``list_ended`` does; see there."""

    def list_waiting(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read what waits for a node, or will when it is due, earliest due first.

        What is paused, or waits for another instance to end, is not among it. Where
        owners are asked for, some that come behind many of others may be missing.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            limit: The most to return, 1 to 1,000.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        return self._ready().list_waiting(
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            limit=limit,
        )

    alist_waiting = awaitable(list_waiting)
    """Await what ``list_waiting`` does; see there."""

    def list_claims(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read what nodes hold and run, in the order in which their claims expire.

        What was held of a definition when it was paused may be left out.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            limit: The most to return, 1 to 1,000.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        return self._ready().list_claims(
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            limit=limit,
        )

    alist_claims = awaitable(list_claims)
    """Await what ``list_claims`` does; see there."""

    def search_names(
        self,
        prefix: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read definitions whose name begins with a text, in the order of their ids.

        Args:
            prefix: How it begins; capitals are not small letters.
            queues: Their queue is among these; None: any.
            owners: They are in the set of one of these; None: of any, or none.
            limit: The most to return, 1 to 1,000.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        check_type("prefix", prefix, str)
        check_searched("prefix", prefix)
        return self._ready().search_names(
            prefix,
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            limit=limit,
        )

    asearch_names = awaitable(search_names)
    """Await what ``search_names`` does; see there."""

    def search_key(
        self,
        key: str,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read the instances that have a key, of a thousand definitions at most.

        Args:
            key: The whole key.
            queues: Their definition's queue is among these; None: any.
            owners: It is in the declared set of one of these; None: of any, or none.
            limit: The most to return, 1 to 1,000.

        Returns:
            They, in the order of ``execute_at`` and id.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        check_type("key", key, str)
        check_searched("key", key)
        return self._ready().search_key(
            key,
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            limit=limit,
        )

    asearch_key = awaitable(search_key)
    """Await what ``search_key`` does; see there."""
