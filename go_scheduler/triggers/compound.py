"""Triggers made of others, and the search for their fire times.

A search tries some hundred candidates. Then it goes on with ``fire_time_sets``, which
explains the rest.
"""

from __future__ import annotations

import dataclasses
import operator
from abc import abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple, Self, cast

from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.json import JSON, FrozenObject, freeze
from go_scheduler.triggers.base import (
    STATE_LIMIT,
    Trigger,
    UndecidedError,
    UnknownTrigger,
    dump_trigger,
    is_own,
    load_trigger,
    next_fire_time_of,
    read_field,
    utc,
    worked_out,
    write_field,
)
from go_scheduler.triggers.calendars import edition_of_names
from go_scheduler.triggers.fire_time_sets import (
    LONGEST_SEARCH,
    FireTimes,
    SearchBudget,
    fire_times_of,
)
from go_scheduler.triggers.local_time import zone_of
from go_scheduler.triggers.simple import OnDemandTrigger
from go_scheduler.triggers.times import FIRST_INSTANT, MICROSECOND, just_after

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_PARTS = 100
"""The most triggers that one may be made of, those within its parts included."""

DEEPEST = 10
"""The most triggers that may be nested in each other."""

MOST_CANDIDATES = 100_000
"""The most instants that one search tries in vain, of a trigger without sets."""

# So many single questions cost less than working out a year.
_MOST_QUESTIONS = 250
# A trigger of this package that sets do not find is rare, or steps by odd lengths.
_MOST_QUESTIONS_TO_OWN = 1_200
_MOST_AT_CREATION = 300
_MOST_FOR_A_WARNING = 1_500
_LONGEST_SEARCH = LONGEST_SEARCH * timedelta(days=365.2425)
# Several, as zones have had other offsets, and a trigger may leave out a season or a
# time of day, second by second.
_BEGINNINGS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1984, 7, 2, 12, tzinfo=UTC),
    datetime(1998, 1, 1, 6, tzinfo=UTC),
    datetime(2012, 7, 2, 18, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
)


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
    """A value that is to be a list, as in ``a list of triggers``.

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


def anchored_part(part: Trigger, now: datetime) -> Trigger:
    """A part that counts from ``now``, if it was not told what else to count from.

    Raises:
        InvalidTriggerError: What its ``anchored`` returned is not equal to it.
    """
    anchored: object = part.anchored(now)
    if not isinstance(anchored, Trigger) or anchored != part:
        raise InvalidTriggerError(
            f"{shown(part)} is not equal to itself when anchored: {shown(anchored)}"
        )
    return anchored


def in_brackets(trigger: Trigger) -> str:
    """Its description, in brackets if the words after it could change its meaning."""
    text = trigger.describe()
    return f"({text})" if isinstance(trigger, CompoundTrigger) else text


class Candidate(NamedTuple):
    """The next instant at which a trigger may fire.

    Attributes:
        time: In UTC. It does not fire between the instant asked about and this one.
        fires: Whether it fires then. If not, one has to ask again from here; this is
            then later than the instant asked about.
    """

    time: datetime
    fires: bool


@dataclass(frozen=True)
class CompoundTrigger(Trigger):
    """A trigger that is made of others.

    A subclass is a frozen dataclass whose fields hold triggers, tuples of triggers and
    plain values. Its ``__init__`` calls ``_create``. What it has worked out is cached
    beside its fields, and neither compared nor stored nor pickled.
    """

    @abstractmethod
    def _check(self) -> None:
        """Check the fields, and bring them into the form in which they are compared.

        Raises:
            InvalidTriggerError: One of them is wrong.
        """

    @abstractmethod
    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
        """The first instant at or after a given one at which it may fire.

        It takes one step, so that a search through triggers of triggers stays bounded.

        Args:
            start: In UTC; later than the earliest instant there is.
            search: Asks other triggers, and hears of each instant tried in vain.

        Returns:
            None: it never fires again, or the search gives it up.
        """

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than a given instant.

        Args:
            after: Any aware instant.

        Returns:
            A time in UTC; None if there is none before the year 10000, or for 400
            years.

        Raises:
            InvalidTriggerError: A part has returned something else than a fire time; or
                too many instants are left out, so that the answer is not known.
        """
        after = utc(after, name="after")
        trigger = self if self._is_anchored else self.anchored(after)
        return FireTimeSearch(trigger).next_fire_time(after)

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
        known = self._is_anchored and not self.recurring
        return self.next_fire_time(FIRST_INSTANT if known else now)

    def anchored(self, now: datetime) -> Self:
        """This trigger with its parts counting from ``now``, if they need that.

        It does not check that the result ever fires: a definition may be scheduled
        again, unchanged, after its last fire time.

        Args:
            now: When the definition is first scheduled; aware.

        Raises:
            InvalidTriggerError: A part is not equal to itself when anchored.
        """
        found: dict[str, object] = {}
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if (anchored := _anchored(value, now)) is not value:
                found[each.name] = anchored
        return self._with(**found) if found else self

    @worked_out
    def _is_anchored(self) -> bool:
        """Whether it and all of its parts know what they count from."""
        return self._knows_start() and all(
            each._is_anchored
            if isinstance(each, CompoundTrigger)
            else each.anchored(FIRST_INSTANT) is each
            for each in self.parts()
        )

    def _knows_start(self) -> bool:
        """Whether it knows what it counts from itself; its parts are not asked."""
        return True

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
            each.name: _to_json(getattr(self, each.name))
            for each in dataclasses.fields(self)
        }
        return _frozen(state, self.kind)

    @classmethod
    def from_dict(cls, state: Mapping[str, JSON]) -> Self:
        """The trigger that ``to_dict`` was called on.

        It does not check again that the trigger ever fires, which calendars may change.

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
                object.__setattr__(trigger, each.name, _from_json(cast("JSON", value)))
            if values:
                raise InvalidTriggerError(f"it has no {', '.join(values):.200}")
            trigger._check()
            trigger._check_size()
        return trigger

    def _create(self, **values: object) -> None:
        """Set the fields, as they were given; refuse what cannot be stored."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
        with self._blame():
            self._check()
            self._check_size()
            dump_trigger(self)

    def _check_size(self) -> None:
        depth, number = _size(self)
        if depth > DEEPEST or number > MOST_PARTS:
            raise InvalidTriggerError(
                f"it is made of {number} triggers, {depth} deep, itself included; at"
                f" most {MOST_PARTS}, {DEEPEST} deep, make one"
            )

    def _with(self, **changes: object) -> Self:
        """A copy with some fields changed, that is not checked."""
        copy = object.__new__(type(self))
        for each in dataclasses.fields(self):
            value = changes.get(each.name, getattr(self, each.name))
            object.__setattr__(copy, each.name, value)
        return copy

    def _refuse_if_idle(self, why: str, *, start: datetime | None = None) -> None:
        """Refuse a trigger that never fires, once nothing is left to be anchored.

        A trigger is accepted if the search gives up. It tries fewer candidates than
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
            if not self._is_anchored:
                return
            starts = _BEGINNINGS if self.recurring else (FIRST_INSTANT,)
            budget = SearchBudget()
            for each in starts if start is None else (start,):
                search = FireTimeSearch(self, most=_MOST_AT_CREATION, budget=budget)
                with suppress(UndecidedError):
                    if search.next_fire_time(each) is None:
                        raise InvalidTriggerError(f"it never fires: {why}")
                    return

    @contextmanager
    def _blame(self) -> Iterator[None]:
        """Turn an error of a part into one that names this trigger."""
        try:
            yield
        except InvalidTriggerError as error:
            raise InvalidTriggerError(f"{self.kind}: {error}") from None
        except Exception as error:
            raise InvalidTriggerError(
                f"{self.kind}: a part of it raised {shown(error)}"
            ) from error


def _anchored(value: object, now: datetime) -> object:
    """A field's value with its triggers anchored; itself if none had to be."""
    if isinstance(value, Trigger):
        return anchored_part(value, now)
    if not isinstance(value, tuple):
        return value
    found = tuple(_anchored(each, now) for each in value)
    return value if all(map(operator.is_, found, value)) else found


def _size(trigger: Trigger) -> tuple[int, int]:
    """How deep a trigger is nested, and of how many it is made."""
    if not isinstance(trigger, CompoundTrigger):
        return 1, 1
    depths, numbers = zip(*map(_size, trigger.parts()), strict=True)
    return 1 + max(depths), 1 + sum(numbers)


def _to_json(value: object) -> JSON:
    """A field's value as JSON: triggers by their kind and state."""
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    if isinstance(value, Trigger):
        kind, state = dump_trigger(value)
        return {"kind": kind, "state": state}
    return write_field(value)


def _from_json(value: JSON) -> object:
    """The value that ``_to_json`` was called on; an unknown trigger stays one."""
    if isinstance(value, list):
        return tuple(map(_from_json, value))
    match value:
        case {"kind": str(kind), "state": state, **others} if not others:
            return load_trigger(kind, state)
    try:
        return read_field(value)
    except ValueError:
        # The check of the field says what it should be.
        return value


def _frozen(state: object, kind: str) -> FrozenObject:
    try:
        return freeze(state, name=f"the state of {kind}", limit=STATE_LIMIT)
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None


class FireTimeSearch:
    """The search for one fire time of a trigger, through all that it is made of.

    It begins with one candidate after the other, which is quick as a rule. If many of
    them do not fire, it goes on with sets of fire times. Only triggers of this package
    have sets. With others it tries more candidates, and gives up in the end.

    Args:
        trigger: Whose fire time to find.
        most: How many instants to try in vain, at most.
        budget: What sets may cost; by default as much as for one question.
    """

    def __init__(
        self,
        trigger: Trigger,
        *,
        most: int = MOST_CANDIDATES,
        budget: SearchBudget | None = None,
    ) -> None:
        self._trigger = trigger
        self._left = most
        self._budget = budget or SearchBudget()
        self._questions = 0
        self._last_question = maxsize
        self._most_questions = _MOST_QUESTIONS if _known_sets(trigger) is None else 0
        self._since: dict[int, datetime] = {}
        self._answers: dict[int, tuple[datetime, Candidate | None]] = {}

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than a given instant in UTC, or None.

        Raises:
            UndecidedError: It has tried as many candidates as it may.
        """
        if (start := just_after(after)) is None:
            return None
        while (found := self.ask(self._trigger, start)) is not None:
            if found.fires:
                return found.time
            start = found.time
            if self._questions > self._most_questions:
                times = _sets_of(self._trigger)
                if times is not None:
                    # If sets take too much, a few candidates may still lead there.
                    with suppress(UndecidedError):
                        return times.next(start, self._leap, self._budget)
                self._most_questions = maxsize
                if is_own(self._trigger):
                    most = min(self._left, _MOST_QUESTIONS_TO_OWN)
                    self._last_question = self._questions + most
        return None

    def ask(self, trigger: Trigger, start: datetime) -> Candidate | None:
        """The first instant at or after a given one at which a trigger may fire.

        Raises:
            InvalidTriggerError: A trigger has returned what is no fire time.
        """
        if isinstance(trigger, CompoundTrigger):
            return trigger.candidate(start, self)
        if (known := self._answers.get(id(trigger))) is not None:
            since, answer = known
            if since <= start and (answer is None or start <= answer.time):
                return answer
        if self._questions >= self._last_question:
            raise _undecided(start)
        self._questions += 1
        found = next_fire_time_of(trigger, start - MICROSECOND)
        answer = None if found is None else Candidate(found, fires=True)
        self._answers[id(trigger)] = start, answer
        return answer

    def reject(
        self, trigger: CompoundTrigger, until: datetime | None
    ) -> Candidate | None:
        """Note that a trigger does not fire at an instant.

        Args:
            trigger: The trigger.
            until: Nor before this; None: never again.

        Returns:
            Where it may fire; None if it has not for 400 years.

        Raises:
            UndecidedError: It is one candidate too many.
        """
        if until is None:
            return None
        self._left -= 1
        if self._left < 0:
            raise _undecided(until)
        since = self._since.setdefault(id(trigger), until)
        if until - since > _LONGEST_SEARCH:
            return None
        return Candidate(until, fires=False)

    def _leap(self, start: datetime) -> datetime | None:
        # It has its own share of what may be tried in vain.
        found = FireTimeSearch(self._trigger).ask(self._trigger, start)
        return None if found is None else found.time


def _sets_of(trigger: Trigger) -> FireTimes | None:
    """Its fire times as sets, worked out once until a calendar changes."""
    if (known := _known_sets(trigger)) is not None:
        return known
    # Asked for first: if one changes meanwhile, they are worked out again.
    edition = edition_of_names()
    times = searchable_times_of(trigger)
    object.__setattr__(trigger, "_sets", (times, edition))
    return times


def _known_sets(trigger: Trigger) -> FireTimes | None:
    times, edition = getattr(trigger, "_sets", (None, None))
    return times if edition == edition_of_names() else None


def searchable_times_of(trigger: Trigger) -> FireTimes | None:
    """The fire times of a trigger, if they can be searched as sets."""
    times = fire_times_of(trigger)
    return None if times is None or times.microseconds is None else times


def _undecided(until: datetime) -> UndecidedError:
    return UndecidedError(
        "it could not be decided when it fires: too many times in a row are left out,"
        f" the last one before {until:%Y-%m-%d %H:%M:%S}"
    )
