"""Triggers made of others: how they are checked, anchored, shown and stored."""

from __future__ import annotations

import dataclasses
import operator
from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Self, cast

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.json import JSON, FrozenObject, freeze
from go_scheduler.triggers.base import (
    STATE_LIMIT,
    Trigger,
    read_field,
    utc,
    write_field,
    years_of,
)
from go_scheduler.triggers.combining.search import FireTimeSearch, SearchedTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger, load_trigger
from go_scheduler.triggers.times import FIRST_INSTANT
from go_scheduler.triggers.years.sets import SearchBudget, UndecidedError
from go_scheduler.triggers.zones import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from go_scheduler.triggers.years.sets import Years

MOST_PARTS = 100
"""The most triggers that one may be made of, those within its parts included."""

DEEPEST = 10
"""The most triggers that may be nested in each other."""


def checked_part(name: str, value: object) -> Trigger:
    """A value that is to be a part of another trigger.

    Args:
        name: What to call it in an error.
        value: The value.

    Raises:
        InvalidTriggerError: It is no trigger, waits for the end of a run, runs on
            demand, or cannot be loaded here.
    """
    if not isinstance(value, Trigger):
        raise InvalidTriggerError(
            f"{name} must be a trigger, such as CronTrigger('0 9 * * *'), not"
            f" {shown(value)}"
        )
    if isinstance(value, UnknownTrigger):
        raise InvalidTriggerError(f"{name}: {value.reason}")
    if value.waits:
        raise InvalidTriggerError(
            f"{name} waits for the end of a run, so that it has no fire times to"
            f" combine: {shown(value)}; use an IntervalTrigger"
        )
    if isinstance(value, OnDemandTrigger):
        raise InvalidTriggerError(
            f"{name} never fires, so that it has no fire times to combine:"
            f" {shown(value)}; run_now() runs any definition on demand"
        )
    return value


def checked_items(name: str, value: object, what: str) -> Sequence[object]:
    """A value that is to be a list of something.

    Args:
        name: What to call it in an error.
        value: The value.
        what: What it is to hold, as in ``a list of triggers``.

    Raises:
        InvalidTriggerError: It is no list or tuple, empty or too long.
    """
    if not isinstance(value, list | tuple):
        raise InvalidTriggerError(f"{name} must be a list of {what}: {shown(value)}")
    if not 0 < len(value) <= MOST_PARTS:
        raise InvalidTriggerError(
            f"{name} must be 1 to {MOST_PARTS} {what}, not {len(value)}"
        )
    return value


def check_size(trigger: Trigger) -> None:
    """Refuse a trigger that is made of too many, or nested too deep.

    Raises:
        InvalidTriggerError: It is.
    """
    depth, number = _size(trigger)
    if depth > DEEPEST or number > MOST_PARTS:
        raise InvalidTriggerError(
            f"it is made of {number} triggers, {depth} deep, itself included; at most"
            f" {MOST_PARTS}, {DEEPEST} deep, make one"
        )


def anchored_part(part: Trigger, now: datetime) -> Trigger:
    """A part counting from ``now``, if it counts from somewhere not given.

    Raises:
        InvalidTriggerError: What its ``anchored`` returned is not equal to it.
    """
    anchored: object = part.anchored(now)
    if not isinstance(anchored, Trigger) or anchored != part:
        raise InvalidTriggerError(
            f"{shown(part)} is not equal to itself when anchored: {shown(anchored)}"
        )
    return anchored


def anchored_value(value: object, now: datetime) -> object:
    """A field's value with its triggers anchored; itself if none had to be."""
    if isinstance(value, Trigger):
        return anchored_part(value, now)
    if not isinstance(value, tuple):
        return value
    found = tuple(anchored_value(each, now) for each in value)
    return value if all(map(operator.is_, found, value)) else found


def in_brackets(trigger: Trigger) -> str:
    """Its description, in brackets if it could run into what follows."""
    text = trigger.describe()
    return f"({text})" if isinstance(trigger, SearchedTrigger) else text


def all_years_of(triggers: Sequence[Trigger], phase: int) -> list[Years] | None:
    """The fire times of several triggers as sets; None: some are not known as such.

    Args:
        triggers: The triggers.
        phase: At which microsecond of their seconds.
    """
    found = [years_of(each, phase) for each in triggers]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def to_json(value: object) -> JSON:
    """A field's value as JSON: triggers by their kind and state.

    Raises:
        InvalidTriggerError: A trigger cannot be stored.
    """
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if isinstance(value, Trigger):
        kind, state = dump_trigger(value)
        return {"kind": kind, "state": state}
    return write_field(value)


def from_json(value: JSON) -> object:
    """The value that ``to_json`` was called on; an unknown trigger stays one."""
    if isinstance(value, list):
        return tuple(map(from_json, value))
    match value:
        case {"kind": str(kind), "state": state, **others} if not others:
            return load_trigger(kind, state)
    try:
        return read_field(value)
    except ValueError:
        # The check of the field says what it should be.
        return value


def _size(trigger: Trigger) -> tuple[int, int]:
    """How deep a trigger is nested, and of how many it is made."""
    if not isinstance(trigger, SearchedTrigger):
        return 1, 1
    depths, numbers = zip(*map(_size, trigger.parts()), strict=True)
    return 1 + max(depths), 1 + sum(numbers)


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
            effort = SearchBudget()
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
