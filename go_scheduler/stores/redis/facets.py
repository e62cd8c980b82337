"""By what definitions are found: name, queue, owner, and each part of their metadata.

Each is a sorted set of ids. What is found so contains what is looked for, or nearly: it
is compared afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.json import to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition

_MOST = 64
_ANY = "metadata"
"""Holds those that have more parts than are indexed."""


def facets_of(definition: TaskDefinition) -> list[str]:
    """The sorted sets that a definition stands in, but for that of its owner."""
    parts = list(islice(_parts(definition.metadata), _MOST + 1))
    found = [f"queue {definition.queue}", *dict.fromkeys(parts[:_MOST])]
    if definition.name is not None:
        found.append(f"name {definition.name}")
    if len(parts) > _MOST:
        found.append(_ANY)
    return found


def choices_of(
    *,
    metadata: Mapping[str, JSON] | None,
    name: str | None,
    queues: Collection[str] | None,
    owners: Collection[str] | None,
) -> list[list[str]]:
    """For each condition the sorted sets one of which has what meets it."""
    found = [] if name is None else [[f"name {name}"]]
    if queues is not None:
        found.append([f"queue {each}" for each in set(queues)])
    if owners is not None:
        found.append([f"owner {each}" for each in set(owners)])
    parts = islice(_parts(metadata or {}), _MOST)
    return [*found, *([part, _ANY] for part in parts)]


def _parts(metadata: Mapping[str, JSON]) -> Iterator[str]:
    """A text for each plain value in it, the same wherever that is contained."""
    for path, value in _leaves(metadata, ()):
        text = to_text([*path, _comparable(value)])
        digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        yield f"metadata {digest}"


def _leaves(
    value: JSON, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], JSON]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            # Wherever it stands in an array.
            yield from _leaves(part, (*path, 0))
    else:
        yield path, value


def _comparable(value: JSON) -> JSON:
    """The same for numbers that are equal, and another one for true than for 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
