"""Which definitions a call is about, that changes many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from go_scheduler.checks import check_definition_id
from go_scheduler.client.arguments import (
    check_searched,
    checked_ids,
    metadata_query,
)
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.stores.joined_store import JoinedStore


class Conditions(TypedDict):
    """Each that a definition has to meet, as for ``list_definitions``; None: any does.

    Attributes:
        ids: Their ids.
        metadata: What theirs contains.
        name: Theirs.
        queue: Theirs.
    """

    ids: Collection[UUID] | None
    metadata: Mapping[str, JSON] | None
    name: str | None
    queue: str | None


def conditions(
    *,
    ids: Collection[UUID] | None,
    metadata: Mapping[str, JSON] | None,
    name: str | None,
    queue: str | None,
) -> Conditions:
    """The conditions, checked.

    Raises:
        ConfigurationError: One is wrong.
    """
    check_searched("name", name)
    check_searched("queue", queue)
    return {
        "ids": None if ids is None else checked_ids(ids),
        "metadata": None if metadata is None else metadata_query(metadata),
        "name": name,
        "queue": queue,
    }


def only(definition_id: UUID) -> Conditions:
    """The condition of one definition, checked.

    Raises:
        ConfigurationError: It is no id.
    """
    check_definition_id(definition_id)
    return {"ids": [definition_id], "metadata": None, "name": None, "queue": None}


def batches(store: JoinedStore, which: Conditions) -> Iterator[Collection[UUID]]:
    """The ids of the definitions that meet every condition, a hundred at a time.

    If it is ids alone that were given, those, whether they are there or not.
    """
    ids, *others = which.values()
    if ids is not None and others == [None] * len(others):
        yield which["ids"] or ()
        return
    after = None
    while page := store.list_definitions(**which, after=after):
        yield [each.id for each in page]
        after = Position.of_definition(page[-1])
