"""A store of your own: everything in one JSON file, which processes can share.

Every call takes the file's lock, reads the file if another process has written it, works
on a copy of the rows, and, if anything changed, writes them to a new file that replaces the
old one. So a call happens as a whole or not at all, whatever dies meanwhile. It is slow,
since it writes everything each time; what it keeps is what ``StoreSuite`` asks for.

It prints::

    first process: scheduled 2, ran 0
    second process: water the plants
    second process: feed the cat
    third process: 2 completed
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints
from uuid import UUID, uuid4

from go_scheduler import (
    ConflictError,
    ExecuteOnceTrigger,
    Scheduler,
    Store,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstance,
    TaskInstanceNotFoundError,
    Trigger,
)
from go_scheduler.json import contains
from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.triggers.base import dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence, Set

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import Claim, Claimant, Firing, Release, Renewal, RunOutcome


def dump(value: Any) -> Any:
    """A value as JSON can hold it; ``load`` reverses it."""
    if isinstance(value, Trigger):
        return dump_trigger(value)
    if is_dataclass(value):
        return {each.name: dump(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, UUID) else value


def load(kind: Any, value: Any) -> Any:
    """The value of this type that was dumped."""
    if value is None:
        return None
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
    if kind is Trigger:
        return load_trigger(*value)
    if is_dataclass(kind):
        hints = cached_hints(kind)
        return kind(**{name: load(hints[name], part) for name, part in value.items()})
    if kind is timedelta:
        return timedelta(microseconds=value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    return kind(value) if kind in (UUID, Outcome) else value


cached_hints = cache(get_type_hints)


@dataclass
class Rows:
    """What the file holds; orphans are ended instances of deleted definitions."""

    definitions: dict[UUID, TaskDefinition] = field(default_factory=dict)
    instances: dict[UUID, TaskInstance] = field(default_factory=dict)
    orphans: dict[UUID, TaskInstance] = field(default_factory=dict)
    changed: bool = False

    def copy(self) -> Rows:
        return Rows(dict(self.definitions), dict(self.instances), dict(self.orphans))

    def of(self, definition: TaskDefinition) -> list[TaskInstance]:
        each_of = self.instances.values()
        return [each for each in each_of if each.definition.id == definition.id]

    def current(self, claim: Claim) -> TaskInstance | None:
        found = self.instances.get(claim.instance_id)
        if found is None or found.attempt != claim.attempt:
            return None
        return found if found.state in (State.CLAIMED, State.RUNNING) else None

    def keep(self, row: TaskInstance) -> TaskInstance:
        self.changed, self.instances[row.id] = True, row
        return row

    def keep_definition(self, row: TaskDefinition) -> TaskDefinition:
        self.changed, self.definitions[row.id] = True, row
        for each in self.of(row):
            self.instances[each.id] = replace(each, definition=row)
        return row

    def go_on(self, instance: TaskInstance, at: datetime | None, now: datetime) -> None:
        """Move a definition on that waited for the end of this instance."""
        row = self.definitions[instance.definition.id]
        if row.trigger.waits and row.next_fire_time is None and row.completed_at is None:
            done = now if at is None else None
            self.keep_definition(replace(row, next_fire_time=at, completed_at=done))

    def write(self, path: Path) -> None:
        document = {
            "definitions": dump_all(self.definitions),
            "instances": [
                dump(each) | {"definition": str(each.definition.id)}
                for each in self.instances.values()
            ],
            "orphans": dump_all(self.orphans),
        }
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    @classmethod
    def read(cls, path: Path) -> Rows:
        document = json.loads(path.read_text())
        rows = cls()
        for part in document["definitions"]:
            definition = load(TaskDefinition, part)
            rows.definitions[definition.id] = definition
