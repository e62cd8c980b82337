"""Triggers that are made of others: how they are checked, anchored and stored."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Self, cast

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.json import JSON, FrozenObject, freeze
from go_scheduler.shown import shown
from go_scheduler.triggers.base import STATE_LIMIT, Trigger, utc
from go_scheduler.triggers.combining.nesting import (
    anchored_value,
    check_size,
    from_json,
    to_json,
)
from go_scheduler.triggers.combining.search import FireTimeSearch, SearchedTrigger
from go_scheduler.triggers.instants import FIRST_INSTANT
from go_scheduler.triggers.stored import dump_trigger
from go_scheduler.triggers.wall.zones import zone_of
from go_scheduler.triggers.years.effort import Effort, UndecidedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Several, as zones have had other offsets, and a trigger may leave out a season or a
# time of day, second by second.
_BEGINNINGS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1984, 7, 2, 12, tzinfo=UTC),
    datetime(1998, 1, 1, 6, tzinfo=UTC),
    datetime(2012, 7, 2, 18, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
)
_MOST_AT_CREATION = 300
_MOST_FOR_A_WARNING = 1_500


@dataclass(frozen=True, slots=True)
class CompoundTrigger(SearchedTrigger):
    """A trigger that is made of others.

    A subclass is a frozen dataclass whose fields hold triggers, tuples of triggers and
    plain values. Its ``__init__`` calls ``_create``.
    """

    @abstractmethod
    def _check(self) -> None:
        """Check the fields, and bring them into the form in which they are compared.

        Raises:
            InvalidTriggerError: One of them is wrong.
        """

    def parts(self) -> Sequence[Trigger]:
        """The triggers that it is made of."""
        values = [getattr(self, each.name) for each in dataclasses.fields(self)]
        return tuple(
            each
            for value in values
            for each in (value if isinstance(value, tuple) else (value,))
            if isinstance(each, Trigger)
        )

    @property
    def timezone(self) -> str | None:
        """The time zone of the first part that has one."""
        return next(filter(None, map(zone_of, self.parts())), None)

    def first_fire_time(self, now: datetime) -> datetime | None:
        """The fire time a definition starts with.

        Args:
            now: When the definition is scheduled.

        Returns:
            A time in UTC, possibly past if it can only fire once; None if it never
            fires.
        """
        known = self._is_anchored() and not self.recurring
        return self.next_fire_time(FIRST_INSTANT if known else now)

    def anchored(self, now: datetime) -> Self:
        """This trigger with its parts counting from ``now``, where they have to.

        Whether it ever fires, counted from there, is not looked at: a definition may be
        scheduled again, unchanged, when its time has passed.

        Args:
            now: When the definition is first scheduled; aware.

        Raises:
            InvalidTriggerError: A part is not equal to itself when anchored.
        """
        found: dict[str, object] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if (anchored := anchored_value(value, now)) is not value:
                found[each.name] = anchored
        return self._with(**found) if found else self

    def warnings(self, now: datetime) -> Sequence[str]:
        """The warnings of its parts, each once, and whether it does not fire any more.

        Args:
            now: When it is scheduled.
        """
        found = list(chain.from_iterable(each.warnings(now) for each in self.parts()))
        search = FireTimeSearch(self.anchored(now), most=_MOST_FOR_A_WARNING)
        at = f"{now:%Y-%m-%d %H:%M}"
        try:
            if search.next_fire_time(utc(now, name="now")) is None:
                found.append(f"after {at} it does not fire: {self.describe()}")
        except UndecidedError:
            found.append(
                f"whether it fires after {at} could not be decided, as too many times"
                f" are left out: {self.describe()}"
            )
        return tuple(dict.fromkeys(found))

    def to_dict(self) -> Mapping[str, JSON]:
        """The trigger's fields as JSON, each part by its kind and state."""
        state = {
            each.name: to_json(getattr(self, each.name))
            for each in dataclasses.fields(self)
        }
        return _frozen(state, self.kind)

    @classmethod
    def from_dict(cls, state: Mapping[str, JSON]) -> Self:
        """The trigger that ``to_dict`` was called on.

        Whether it fires at all is not looked at again: that can change with a calendar.

        Raises:
            InvalidTriggerError: The state does not make a trigger of this class; or
                this process cannot load a part, or has no calendar of a name.
        """
        values = dict(_frozen(state, cls.kind))
        trigger = object.__new__(cls)
        with trigger._blame():
            for each in dataclasses.fields(cls):
                value = values.pop(each.name, each.default)
                if value is dataclasses.MISSING:
                    raise InvalidTriggerError(f"{each.name} is missing")
                object.__setattr__(trigger, each.name, from_json(cast("JSON", value)))
            if values:
                raise InvalidTriggerError(f"it has no {', '.join(values):.200}")
            trigger._check()
            check_size(trigger)
        return trigger

    def _create(self, **values: object) -> None:
        """Set the fields, as they were given; refuse what cannot be stored."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
        with self._blame():
            self._check()
            check_size(self)
            dump_trigger(self)

    def _with(self, **changes: object) -> Self:
        """A copy with some fields changed, that is not checked."""
        copy = object.__new__(type(self))
        for each in dataclasses.fields(self):
            value = changes.get(each.name, getattr(self, each.name))
            object.__setattr__(copy, each.name, value)
        return copy

    def _refuse_if_idle(self, why: str, *, start: datetime | None = None) -> None:
        """Refuse a trigger that never fires, once nothing is left to be anchored.

        One of which that stays open is not refused. It tries fewer candidates than
        later, to answer within a tenth of a second.

        Args:
            why: Why that may be, and what to do.
            start: Where to begin. By default at several instants from 1970 to 2026,
                or at the beginning of time if it fires only once: it is not to depend
                on when this is asked.

        Raises:
            InvalidTriggerError: It never fires, or a part of it has raised.
        """
        with self._blame():
            if not self._is_anchored():
                return
            starts = _BEGINNINGS if self.recurring else (FIRST_INSTANT,)
            effort = Effort()
            for each in starts if start is None else (start,):
                search = FireTimeSearch(self, most=_MOST_AT_CREATION, effort=effort)
                try:
                    if search.next_fire_time(each) is not None:
                        return
                    break
                except UndecidedError:
                    continue
            else:
                return
            raise InvalidTriggerError(f"it never fires: {why}")

    def _is_anchored(self) -> bool:
        """Whether nothing in it has still to be given what it counts from."""
        return all(
            each._is_anchored()
            if isinstance(each, CompoundTrigger)
            else each.anchored(FIRST_INSTANT) is each
            for each in self.parts()
        )

    @contextmanager
    def _blame(self) -> Iterator[None]:
        """Turn what a part raises into an error that says whose part it is."""
        try:
            yield
        except InvalidTriggerError as error:
            raise InvalidTriggerError(f"{self.kind}: {error}") from None
        except Exception as error:
            raise InvalidTriggerError(
                f"{self.kind}: a part of it raised {shown(error)}"
            ) from error


def _frozen(state: object, kind: str) -> FrozenObject:
    try:
        return freeze(state, name=f"the state of {kind}", limit=STATE_LIMIT)
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None
