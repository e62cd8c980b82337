"""What users look at: nodes, lists and numbers, and why something ran or did not."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from go_scheduler.checks import (
    check_at_least,
    check_definition_id,
    check_number,
    check_type,
)
from go_scheduler.client.store_access import StoreAccess, awaitable, several
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.formatting import shown
from go_scheduler.json import JSON, check_text, freeze
from go_scheduler.models import (
    COUNTED,
    METADATA_LIMIT,
    OPEN,
    Backlog,
    Counted,
    DefinitionState,
    NodeInfo,
    Outcome,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.models.counts import MINUTE
from go_scheduler.stores.base import (
    CONTACTS_KEPT,
    ENDED_LOOKED_AT,
    KEYS_LOOKED_AT,
    LOOKED_AT,
    count_unstarted,
)
from go_scheduler.stores.filters import (
    CLAIMABLE,
    CLAIMED,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
)
from go_scheduler.stores.messages import NodeContact, Position
from go_scheduler.stores.rules import slot_taken_by
from go_scheduler.triggers.base import Trigger, fire_times, utc
from go_scheduler.triggers.times import FIRST_INSTANT

if TYPE_CHECKING:
    from go_scheduler.audit import AuditedDefinition
    from go_scheduler.models import QueueStats, TaskRun
    from go_scheduler.stores import filters
    from go_scheduler.stores.base import JoinedStore, Store
    from go_scheduler.why import Facts, Why


_Word = TypeVar("_Word", bound=StrEnum)

MOST_LISTED = 1000
"""The most definitions or instances that one list returns."""
_MOST_BOUNDS = 101
_MOST_COUNTED = 1_000_000


def check_limit(limit: int) -> None:
    """Check how many items a page may have."""
    check_number("limit", limit, 1, MOST_LISTED)


def check_searched(what: str, text: str | None) -> None:
    """Refuse what cannot be a name or a queue."""
    if text is not None:
        check_type(what, text, str)
        check_text(text, what)


def checked_ids(ids: Collection[UUID]) -> Collection[UUID]:
    """Check ids, given as any iterable."""
    check_type("ids", ids, Iterable)
    kept = tuple(ids)
    for each in kept:
        check_type("an id", each, UUID)
    return kept


def checked_names(what: str, names: Collection[str] | None) -> Collection[str] | None:
    """Check names, given as any iterable; None: no restriction."""
    if names is None:
        return None
    kept = several(what, names, such_as='["mail"]')
    for each in kept:
        check_searched(f"one of {what}", each)
    return frozenset(kept)


def whose(
    queues: Collection[str] | None, owners: Collection[str] | None
) -> dict[str, Any]:
    """The conditions that restrict a list to queues and owners, checked."""
    return {
        "queues": checked_names("queues", queues),
        "owners": checked_names("owners", owners),
    }


def checked_most(most: object) -> int:
    """Check the number up to which is counted."""
    return check_number("most", most, 1, _MOST_COUNTED)


def one_of(kind: type[_Word], word: _Word | str) -> _Word:
    """Check a member of an enumeration, given as such or as its text."""
    check_type("state", word, str)
    if word not in tuple(kind):
        raise ConfigurationError(
            f"state must be one of {', '.join(kind)}: {shown(word)}"
        )
    return kind(word)


def in_both(one: str | None, several: Collection[str] | None) -> Collection[str] | None:
    """What a list may have that meets both conditions; None: anything."""
    if one is None:
        return several
    return [one] if several is None or one in several else []


def conditions(
    *,
    ids: Collection[UUID] | None,
    metadata: Mapping[str, JSON] | None,
    name: str | None,
    queue: str | None,
    owner: str | None = None,
    queues: Collection[str] | None = None,
    owners: Collection[str] | None = None,
    state: DefinitionState | str | None = None,
) -> DefinitionFilter:
    """The conditions, checked.

    Raises:
        ConfigurationError: One is wrong.
    """
    check_searched("name", name)
    check_searched("queue", queue)
    check_searched("owner", owner)
    if metadata is not None:
        metadata = freeze(metadata, name="metadata", limit=METADATA_LIMIT)
    return DefinitionFilter(
        ids=None if ids is None else checked_ids(ids),
        metadata=metadata,
        name=name,
        queues=in_both(queue, checked_names("queues", queues)),
        owners=in_both(owner, checked_names("owners", owners)),
        state=None if state is None else one_of(DefinitionState, state),
    )


def only(definition_id: UUID) -> DefinitionFilter:
    """The condition that is met by one definition alone, checked.

    Raises:
        ConfigurationError: It is no id.
    """
    check_definition_id(definition_id)
    return DefinitionFilter(ids=[definition_id])


def batches(store: JoinedStore, which: DefinitionFilter) -> Iterator[Collection[UUID]]:
    """The ids of the definitions that meet every condition, a hundred at a time.

    If only ids were given, these are returned, whether the definitions exist or not.
    """
    if which.ids is not None and which == DefinitionFilter(ids=which.ids):
        yield which.ids
        return
    after = None
    while page := store.select_definitions(which, after=after):
        yield [each.id for each in page]
        if (after := page.next) is None:
            return


_Item = TypeVar("_Item")


class ListOrder(StrEnum):
    """The order of a list. A cursor can be used in its own order only."""

    DEFINITIONS_BY_ID = "d"
    DEFINITIONS_SOONEST_FIRST = "ds"
    INSTANCES_OLDEST_FIRST = "i"
    INSTANCES_NEWEST_FIRST = "in"
    INSTANCES_ENDED_LAST_FIRST = "ie"


# The orders in which each item has a time.
_BY_TIME = (
    ListOrder.INSTANCES_OLDEST_FIRST,
    ListOrder.INSTANCES_NEWEST_FIRST,
    ListOrder.INSTANCES_ENDED_LAST_FIRST,
)


class Page(list[_Item]):
    """A list that may go on.

    Attributes:
        next: Pass it on as ``after`` to read the next page; None: there is none. It is
            a text without meaning, of some 100 letters, digits, ``-``, ``_`` and
            ``=``, and stays good whatever becomes of what the page shows.
    """

    def __init__(self, items: Iterable[_Item] = (), *, next: str | None = None) -> None:
        super().__init__(items)
        self.next = next


def page_of(found: filters.Page[_Item], order: ListOrder) -> Page[_Item]:
    """A page of a store, with a cursor that says where to go on."""
    next = None if found.next is None else cursor_of(order, found.next)
    return Page(found, next=next)


def read_cursor(after: object, order: ListOrder) -> Position | None:
    """The position that a cursor stands for.

    Raises:
        ConfigurationError: It is none, or one of another list.
    """
    if after is None:
        return None
    check_type("after", after, str)
    assert isinstance(after, str)
    try:
        of, at, id = json.loads(urlsafe_b64decode(after.encode()))
        position = Position(
            at=(
                None
                if at is None or order is ListOrder.DEFINITIONS_BY_ID
                else utc(datetime.fromisoformat(at), name="at")
            ),
            id=UUID(id),
        )
    # Anybody can cause a RecursionError: brackets within brackets.
    except (ValueError, TypeError, AttributeError, RecursionError, ConfigurationError):
        of = None
    if of != order.value or (at is None and order in _BY_TIME):
        raise ConfigurationError(
            "after must be the `next` of a page of the same list in the same order, not"
            f" {shown(after)}"
        )
    return position


def from_id(id: UUID) -> str:
    """The cursor after which a list in the order of ids begins with this one."""
    before = UUID(int=max(0, id.int - 1))
    return cursor_of(ListOrder.DEFINITIONS_BY_ID, Position(at=None, id=before))


def cursor_of(order: ListOrder, position: Position) -> str:
    """The cursor that stands for a position, for the next page of the same list."""
    at = None if position.at is None else position.at.isoformat()
    text = json.dumps([order.value, at, str(position.id)])
    return urlsafe_b64encode(text.encode()).decode()


_LOOKED_AT = 500
"""How many waiting instances are searched for what was given back."""
_QUEUES = 100
_ALIVE = timedelta(minutes=1)
_MOST_MINUTES = 2000
# How much of each list is read: enough to find what is most urgent, or was last.
_MOST = 100
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_LAST_ID = UUID(int=2**128 - 1)


def backlog_of(
    store: Store, most: int, *, queues: Collection[str] | None = None
) -> Sequence[Backlog]:
    """The backlog, with what nodes have given back and will be offered again.

    Args:
        store: Read.
        most: How far the instances of a queue are counted.
        queues: The queues to look at; None: all.
    """
    due = store.list_backlog(most, queues=queues)
    now = store.now()
    waiting = store.select(
        replace(CLAIMABLE, queues=queues),
        order=Order.DUE,
        limit=_LOOKED_AT,
        scan_limit=LOOKED_AT,
    )
    again = [each for each in waiting if now < each.due_at and _was_due(each, now)]
    return _with(due, again, most)


def _was_due(instance: TaskInstance, now: datetime) -> bool:
    """Whether its time has come, and only a give-back makes it wait.

    One that has failed waits for its retry, unless it was given back since.
    """
    given_back = instance.given_back is not None or (
        instance.attempt > instance.runs and instance.error is None
    )
    return instance.execute_at <= now and given_back


def _with(
    backlog: Iterable[Backlog], again: Iterable[TaskInstance], most: int
) -> Sequence[Backlog]:
    found = {each.queue: each for each in backlog}
    for each in again:
        queue, at = each.definition.queue, each.execute_at
        known = found.get(queue)
        if known is None:
            found[queue] = Backlog(queue=queue, due=Counted(count=1), oldest=at)
            continue
        more = known.due.more or known.due.count >= most
        due = Counted(count=min(most, known.due.count + 1), more=more)
        found[queue] = replace(known, due=due, oldest=min(known.oldest, at))
    return [found[queue] for queue in sorted(found)][:_QUEUES]


class Views(StoreAccess):
    """Reads definitions, instances and nodes, counts them, and says why.

    But for ``counts``, each call that reads definitions or instances reads a bounded
    number of rows of an index, however many there are.
    """

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_definition_id(definition_id)
        return self._ready().get_definition(definition_id)

    aget_definition = awaitable(get_definition)
    """Await what ``get_definition`` does; see there."""

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        state: DefinitionState | str | None = None,
        soonest_first: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet every condition given.

        Args:
            ids: Their id is among these.
            metadata: Their metadata contains this: each key, with a value that contains
                the one given; an array contains those whose items it all contains.
            name: They have this name.
            queue: They have this queue.
            owner: They are in the declared set of this owner.
            queues: Their queue is among these.
            owners: They are in the declared set of one of these owners.
            state: They are in this state, such as ``"paused"``.
            soonest_first: In the order of their ``next_fire_time``, those that have
                none at the end.
            after: They come after a page: its ``next``.
            limit: The most to return, 1 to 1,000.

        Returns:
            The definitions in the order of their ids, unless told otherwise; its
            ``next`` reads on.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        check_type("soonest_first", soonest_first, bool)
        order, in_store = ListOrder.DEFINITIONS_BY_ID, DefinitionOrder.ID
        if soonest_first:
            order = ListOrder.DEFINITIONS_SOONEST_FIRST
            in_store = DefinitionOrder.NEXT_FIRE_TIME
        where = conditions(
            ids=ids,
            metadata=metadata,
            name=name,
            queue=queue,
            owner=owner,
            queues=queues,
            owners=owners,
            state=state,
        )
        found = self._ready().select_definitions(
            where, order=in_store, after=read_cursor(after, order), limit=limit
        )
        return page_of(found, order)

    alist_definitions = awaitable(list_definitions)
    """Await what ``list_definitions`` does; see there."""

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        check_type("instance_id", instance_id, UUID)
        return self._ready().get_instance(instance_id)

    aget_instance = awaitable(get_instance)
    """Await what ``get_instance`` does; see there."""

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | str | None = None,
        since: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition; None: to any, or to one that
                has been deleted.
            name: Their definition has this name.
            key: They have this ``key``, of those made by hand.
            state: They are in this state, such as ``"failed"``.
            since: Their ``execute_at`` is not before this.
            queues: Their definition's queue is among these.
            owners: Their definition is in the declared set of one of these owners.
            newest_first: Those with the latest ``execute_at`` come first.
            after: They come after a page: its ``next``.
            limit: The most to return, 1 to 1,000.

        Returns:
            The instances in the order of ``execute_at`` and id, unless told otherwise;
            its ``next`` reads on.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        if definition_id is not None:
            check_definition_id(definition_id)
        check_searched("name", name)
        check_searched("key", key)
        check_type("newest_first", newest_first, bool)
        order = ListOrder.INSTANCES_OLDEST_FIRST
        if newest_first:
            order = ListOrder.INSTANCES_NEWEST_FIRST
        where = Filter(
            definition_id=definition_id,
            name=name,
            key=key,
            states=None if state is None else [one_of(State, state)],
            since=None if since is None else utc(since, name="since"),
            **whose(queues, owners),
        )
        found = self._ready().select(
            where,
            descending=newest_first,
            after=read_cursor(after, order),
            limit=limit,
        )
        return page_of(found, order)

    alist_instances = awaitable(list_instances)
    """Await what ``list_instances`` does; see there."""

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read how the runs of an instance ended that did not end it well.

        Returns:
            The last twenty of them, earliest first; empty if there are none, or is no
            such instance.
        """
        check_type("instance_id", instance_id, UUID)
        return self._ready().list_runs(instance_id)

    alist_runs = awaitable(list_runs)
    """Await what ``list_runs`` does; see there."""

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state.

        What deleted definitions have left is counted as well.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: Their definition is in the declared set of one of these owners;
                None: of any, or in none.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        [counts] = self._ready().count([Filter(**whose(queues, owners))])
        return {state: each.count for state, each in counts.items()}

    acounts = awaitable(counts)
    """Await what ``counts`` does; see there."""

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
        where = Filter(**whose(queues, owners))
        [counts] = self._ready().count([where], most=checked_most(most))
        return counts

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
            self._ready(),
            checked_most(most),
            queues=checked_names("queues", queues),
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
        order = ListOrder.INSTANCES_ENDED_LAST_FIRST
        state = State(one_of(Outcome, outcome).value)
        found = self._ready().select(
            Filter(states=[state], **whose(queues, owners)),
            order=Order.END,
            descending=True,
            after=read_cursor(after, order),
            limit=limit,
            scan_limit=ENDED_LOOKED_AT,
        )
        return page_of(found, order)

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
        return self._ready().select(
            replace(CLAIMABLE, **whose(queues, owners)),
            order=Order.DUE,
            limit=limit,
            scan_limit=LOOKED_AT,
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
        return self._ready().select(
            replace(CLAIMED, **whose(queues, owners)),
            order=Order.EXPIRY,
            limit=limit,
            scan_limit=LOOKED_AT,
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
        return self._ready().select_definitions(
            DefinitionFilter(name_prefix=prefix, **whose(queues, owners)),
            limit=limit,
            scan_limit=LOOKED_AT,
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
        return self._ready().select(
            Filter(key=key, **whose(queues, owners)),
            limit=limit,
            scan_limit=KEYS_LOOKED_AT,
        )

    asearch_key = awaitable(search_key)
    """Await what ``search_key`` does; see there."""

    def list_fired(
        self,
        definition_id: UUID,
        *,
        since: datetime,
        before: datetime,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read what a definition has fired within a span, in the order of fire times.

        Args:
            definition_id: The definition; of one that is not there nothing is found.
            since: Their ``fire_time`` is not before this.
            before: It is before this.
            newest_first: Whether the latest come first.
            limit: The most to return, 1 to 1,000.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_definition_id(definition_id)
        check_type("newest_first", newest_first, bool)
        check_limit(limit)
        where = Filter(
            definition_id=definition_id,
            fired_since=utc(since, name="since"),
            fired_before=utc(before, name="before"),
        )
        return self._ready().select(
            where, order=Order.FIRE_TIME, descending=newest_first, limit=limit
        )

    alist_fired = awaitable(list_fired)
    """Await what ``list_fired`` does; see there."""

    def count_fired(
        self, definition_id: UUID, bounds: Sequence[datetime], *, most: int = COUNTED
    ) -> Sequence[Mapping[State, int]]:
        """How many a definition has fired, by their state, in spans of time.

        Args:
            definition_id: The definition; of one that is not there nothing is found.
            bounds: Two to 101 instants: each span goes from one to the next.
            most: So many are counted of a span, the earliest; 1 to 1,000,000.

        Returns:
            The numbers of each span; states that have none are left out.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_definition_id(definition_id)
        times = [utc(each, name="bounds") for each in bounds]
        if not 2 <= len(times) <= _MOST_BOUNDS:
            raise ConfigurationError(
                f"bounds must be two to {_MOST_BOUNDS} instants, not {len(times)}"
            )
        spans = [
            Filter(definition_id=definition_id, fired_since=since, fired_before=before)
            for since, before in pairwise(times)
        ]
        return [
            {state: each.count for state, each in counts.items() if each.count}
            for counts in self._ready().count(spans, most=checked_most(most))
        ]

    acount_fired = awaitable(count_fired)
    """Await what ``count_fired`` does; see there."""

    def list_unscheduled(
        self, definition_id: UUID, *, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read what a definition has without a fire time, the latest first.

        That is what was made by hand or on demand, and records of what was skipped.

        Args:
            definition_id: The definition; of one that is not there nothing is found.
            limit: The most to return, 1 to 1,000.

        Returns:
            They, in the order of ``execute_at`` and id, backwards. Where a definition
            has more than five thousand, some of the latest may be missing.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_definition_id(definition_id)
        check_limit(limit)
        return self._ready().select(
            Filter(definition_id=definition_id, fired=False),
            descending=True,
            limit=limit,
            scan_limit=LOOKED_AT,
        )

    alist_unscheduled = awaitable(list_unscheduled)
    """Await what ``list_unscheduled`` does; see there."""

    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes that the store has seen within the last hour.

        A node is one start of a scheduler. Each tells the store of itself every few
        seconds, also one without a handler, and once more when it is told to stop.

        Returns:
            Those that are alive first; then by host, process and since when.
        """
        store = self._ready()
        contacts = store.list_contacts(within=CONTACTS_KEPT)
        now = store.now()
        found = [node_info(each, now) for each in contacts]
        # A row that this package did not write may hold anything.
        found.sort(key=lambda it: (not it.alive, str(it.host), str(it.pid), it.since))
        return found

    anodes = awaitable(nodes)
    """Await what ``nodes`` does; see there."""

    def stats_since(
        self, since: datetime, until: datetime | None = None
    ) -> Sequence[QueueStats]:
        """The counts of all nodes together, by minute and queue.

        A node writes the counts of a minute a few seconds after that minute, and when
        it stops. A node that is killed writes nothing of its last minute. The store
        keeps them for two days.

        Args:
            since: Only minutes that begin no earlier.
            until: Only minutes that begin before this; None: up to now.

        Returns:
            In the order of minutes, and then of queues. Minutes in which nothing began
            or ended are left out. Empty if the store keeps no counts.

        Raises:
            ConfigurationError: An argument is wrong, or it asks for more than 2,000
                minutes.
        """
        since = utc(since, name="since")
        store = self._ready()
        until = store.now() if until is None else utc(until, name="until")
        if until - since > _MOST_MINUTES * MINUTE:
            raise ConfigurationError(
                f"from since to until there are more than {_MOST_MINUTES:,} minutes:"
                " ask in parts"
            )
        found: dict[tuple[datetime, str], QueueStats] = {}
        for each in store.list_stats(since=since, until=until):
            key = each.at, each.queue
            found[key] = found[key] + each if key in found else each
        return [found[key] for key in sorted(found)]

    astats_since = awaitable(stats_since)
    """Await what ``stats_since`` does; see there."""

    # A client does not know the retention of the schedulers.
    _retention: timedelta | None = None

    def why(
        self, definition_id: UUID, at: datetime | None = None, *, machines: bool = True
    ) -> Why:
        """What happened to a definition at an instant, or will, and what decided it.

        ```python
        print(scheduler.why(definition.id, datetime(2026, 11, 22, 9, tzinfo=UTC)))
        ```

        It reads a few short lists, however much there is, and changes nothing.

        Args:
            definition_id: The definition; or an instance, about which it is then
                whenever that was.
            at: Any instant, past or to come; one without a fraction of a second stands
                for that second. None: how things stand now, and what was last.
            machines: Whether to say on which machine, and as which process, nodes run,
                and why they gave something back, which may name others.

        Returns:
            The answer: as text, some plain sentences.

        Raises:
            TaskDefinitionNotFoundError: There is nothing with this id, and nothing is
                remembered of it.
            ConfigurationError: An argument is wrong.
        """
        # Imported when first used: it loads triggers that not everybody uses.
        from go_scheduler.why import about, why_gone, why_now, why_then

        check_definition_id(definition_id)
        check_type("machines", machines, bool)
        asked = None if at is None else utc(at, name="at")
        store = self._ready()
        try:
            definition = store.get_definition(definition_id)
        except TaskDefinitionNotFoundError:
            for tombstone in store.list_tombstones([definition_id]):
                return why_gone(tombstone, at=asked or store.now())
            try:
                instance = store.get_instance(definition_id)
            except TaskInstanceNotFoundError:
                raise TaskDefinitionNotFoundError(definition_id) from None
            facts = self._facts(store, instance.definition, [instance], machines)
            # Without what the caller may not know.
            return about(facts, facts.instances[0])
        if asked is None:
            standing = _standing(store, definition)
            return why_now(self._facts(store, definition, standing, machines))
        around = _around(store, definition, asked)
        facts = self._facts(store, definition, around, machines)
        return why_then(replace(facts, at=asked))

    awhy = awaitable(why)
    """Await what ``why`` does; see there."""

    def audit(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        ids: Collection[UUID] | None = None,
        retention: timedelta | None = None,
        late: timedelta = _SECOND,
        unchanged_since: datetime | None = None,
        fire_times: Callable[
            [Trigger, datetime, datetime], Iterable[datetime]
        ] = fire_times,
        limit: int | None = None,
        machines: bool = True,
    ) -> Iterator[AuditedDefinition]:
        """Say of every fire time that has passed what became of it.

        ```python
        for each in scheduler.audit():
            print(each.definition.name, each.counts, each.broken)
        ```

        Definitions come one after the other, each with all of its fire times. Each
        costs a query for every thousand of its instances, two if a fire time has none,
        and one for each instance that ran more than once. It changes nothing, and
        waits for the store whenever the next definition is asked for.

        What runs on demand, and what fires after the end of each run, has no fire
        times that anybody could name beforehand: its ``note`` says so. What has been
        deleted is left out.

        When a definition was given its trigger is not kept. So fire times before the
        first that is known to have had an instance or a record are *unknown*, and so
        are those before the last one that is none of its trigger's.

        Args:
            since: The first instant; aware. None: a day ago.
            until: The first instant after; aware. None: the store's time, which is the
                latest.
            ids: The definitions to audit; None: all.
            retention: How long the schedulers keep what has ended: what is older may
                be gone, and is *unknown*. None: a scheduler's own, or a day.
            late: What begins so much later than it was to run is late.
            unchanged_since: Since when no trigger has been given or changed; what is
                later than this is not *unknown*. None: nobody knows.
            fire_times: Computes the fire times of a trigger, from an instant on and
                before another one. One of your own finds what a trigger has wrong.
            limit: The most fire times of a definition; one with more has an ``error``.
                None: no end.
            machines: Whether reasons may name machines.

        Raises:
            ConfigurationError: An argument is wrong, or nothing of the range has
                passed.
            TaskDefinitionNotFoundError: There is no definition with one of the ids.
        """
        # Imported when first used: not everybody uses it.
        from go_scheduler.audit import Audit

        if retention is None:
            retention = _DAY if self._retention is None else self._retention
        check_at_least("retention", retention, ZERO)
        check_at_least("late", late, ZERO)
        if limit is not None:
            check_number("limit", limit, 1)
        if ids is not None:
            ids = checked_ids(ids)
        store = self._ready()
        now = store.now()
        begin = now - _DAY if since is None else utc(since, name="since")
        end = now if until is None else min(now, utc(until, name="until"))
        if begin >= end:
            raise ConfigurationError(
                f"since must have passed, and be before until: {begin}, {end}"
            )
        if unchanged_since is not None:
            unchanged_since = utc(unchanged_since, name="unchanged_since")
        return Audit(
            store=store,
            since=begin,
            until=end,
            retention=min(retention, now - FIRST_INSTANT),
            late=late,
            unchanged_since=unchanged_since,
            fire_times=fire_times,
            limit=limit,
            machines=machines,
        ).of(ids)

    def _facts(
        self,
        store: Store,
        definition: TaskDefinition,
        instances: Sequence[TaskInstance],
        machines: bool,
    ) -> Facts:
        from go_scheduler.why import Facts

        slots = (slot_taken_by(each) for each in instances if each.parked)
        slot = next(filter(None, slots), None)
        holder = None if slot is None else store.slot_holder(slot)
        # Read after what it is compared with, so that nothing lies in the future.
        nodes = self.nodes()
        if not machines:
            nodes = [replace(each, host=None, pid=None) for each in nodes]
            # The reason of a give-back may name the host of a bus.
            instances = [replace(each, given_back=None) for each in instances]
            holder = holder and replace(holder, given_back=None)
        most = definition.max_queue
        now = store.now()
        return Facts(
            definition=definition,
            at=now,
            now=now,
            instances=instances,
            nodes=nodes,
            holder=holder,
            retention=self._retention,
            waiting=most and count_unstarted(store, definition.id, most=most),
        )


def node_info(contact: NodeContact, now: datetime) -> NodeInfo:
    """What a node last told of itself, judged at this time."""
    announced = contact.announced
    return NodeInfo(
        id=announced.node,
        host=announced.host,
        pid=announced.pid,
        version=announced.version,
        queues=announced.queues,
        names=announced.names,
        since=contact.since,
        seen_at=contact.until,
        stopping=announced.stopping,
        alive=now - contact.until <= (announced.lease or _ALIVE),
    )


def _standing(store: Store, definition: TaskDefinition) -> Sequence[TaskInstance]:
    """The open instances of the most urgent kind, and those that ended last."""
    of = definition.id
    for state in OPEN:
        found = store.select(Filter(definition_id=of, states=[state]), limit=_MOST)
        if found:
            break
    last = store.select(
        Filter(definition_id=of),
        descending=True,
        # Only what was due by now can have ended.
        after=Position(at=store.now(), id=_LAST_ID),
        limit=_MOST,
    )
    if definition.completed_at is not None and not found and not last:
        # What was cancelled before its time.
        last = store.select(Filter(definition_id=of), limit=_MOST)
    return _once(found, last)


def _around(
    store: Store, definition: TaskDefinition, at: datetime
) -> Sequence[TaskInstance]:
    """The instances of an instant, by fire time first, and those before it."""
    of, before = definition.id, Position(at=at, id=_LAST_ID)
    return _once(
        # By a jitter an instance may run long after its fire time.
        store.select(
            Filter(definition_id=of, fired_since=at, fired_before=at + _SECOND),
            limit=_MOST,
        ),
        store.select(Filter(definition_id=of, since=at), limit=_MOST),
        store.select(
            Filter(definition_id=of, states=[State.SKIPPED]),
            descending=True,
            after=before,
            limit=_MOST,
        ),
        store.select(
            Filter(definition_id=of), descending=True, after=before, limit=_MOST
        ),
    )


def _once(*lists: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
    """All instances that were read, each once, in the order of reading."""
    return list({each.id: each for each in chain(*lists)}.values())
