"""The trigger interface, and the registry by which a stored trigger is found again."""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, cast

from go_scheduler.errors import (
    ConfigurationError,
    InvalidTriggerError,
    UnknownTriggerError,
)
from go_scheduler.json import JSON, freeze
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from go_scheduler.triggers.years.base import Years

ENTRY_POINTS = "go_scheduler.triggers"
STATE_LIMIT = 64 * 1024
OWN = "go_scheduler."
_kinds: dict[str, type[Trigger]] = {}
_announced = threading.Event()
_broken: dict[str, str] = {}


class Progression(NamedTuple):
    """Instants at equal distances, for ever.

    Attributes:
        first: The first one, in microseconds since the year 1 began.
        step: How far they are apart, likewise.
    """

    first: int
    step: int


class Trigger(ABC):
    """When a definition fires: a set of instants, as a frozen value.

    Subclass it as a frozen dataclass, give it a ``kind``, and write
    ``next_fire_time``. Defining the class registers it, so that stores can load it.

    Attributes:
        kind: The trigger's stable name in the store. Renaming the class is safe,
            changing the kind is not.
        recurring: Whether it can fire more than once.
        waits: Whether the next fire time counts from the end of the last run, as only
            this package's own ``DelayTrigger`` does. Such a
            definition never has two open instances; its trigger is asked again, with
            the time its run ended, when a run has ended for good.
    """

    __slots__ = ()

    kind: ClassVar[str]
    recurring: ClassVar[bool] = True
    waits: ClassVar[bool] = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        kind = cls.__dict__.get("kind")
        if kind is None:
            return
        if not isinstance(kind, str) or not kind:
            raise ConfigurationError(
                f"{cls.__qualname__}.kind must be a name: {shown(kind)}"
            )
        known = _kinds.get(kind)
        # A module loaded again and a dataclass given slots define the class anew.
        if known is not None and not _is_again(cls, known):
            raise ConfigurationError(
                f"{_name(cls)}: the trigger kind {shown(kind)} is taken by"
                f" {_name(known)}"
            )
        _kinds[kind] = cls

    @abstractmethod
    def next_fire_time(self, after: datetime) -> datetime | None:
        """The earliest fire time strictly later than a given instant.

        It must depend on the trigger's fields and on ``after`` alone, and answer for
        any instant, so that every node computes the same series.

        Args:
            after: Any aware instant.

        Returns:
            An aware time in UTC; None if it never fires again.
        """

    def first_fire_time(self, now: datetime) -> datetime | None:
        """The fire time a definition starts with.

        Args:
            now: When the definition is scheduled.

        Returns:
            An aware time in UTC, possibly past; None if it never fires.
        """
        return self.next_fire_time(now)

    def anchored(self, now: datetime) -> Self:
        """This trigger, counting from ``now`` if it counts from somewhere not given.

        The first ``schedule()`` calls it, and what it returns is kept. The result must
        be equal to the trigger it was made from.
        """
        return self

    def describe(self) -> str:
        """When it fires, in English, for a person to read.

        Returns:
            Part of a sentence, such as ``every weekday at 08:30``; by default the
            trigger as Python shows it.
        """
        return repr(self)

    def warnings(self, now: datetime) -> Sequence[str]:
        """What its author may not have meant, a sentence each.

        Of this package's own triggers, ``schedule()`` shows them to whoever creates or
        changes a definition.

        Args:
            now: When it is scheduled.
        """
        return ()

    def parts(self) -> Sequence[Trigger]:
        """The triggers that it is made of; empty for most."""
        return ()

    def _phases(self) -> frozenset[int] | None:
        """At which microseconds of their seconds its fire times are, if a few."""
        return None

    def _years(self, phase: int) -> Years | None:
        """Its fire times at one of these microseconds, as sets.

        Only what is this package's says so; other triggers are asked for one fire time
        after the other.
        """
        return None

    def _progression(self) -> Progression | None:
        """Its fire times as a progression, if they are one."""
        return None

    def _is_made_of_own(self) -> bool:
        """Whether what it calls is this package's, too."""
        return all(map(is_own, self.parts()))

    def to_dict(self) -> Mapping[str, JSON]:
        """The trigger's fields as JSON; overwrite it if they are not plain values.

        Returns:
            Each field of the dataclass by its name, datetimes as ISO 8601 text,
            timedeltas as whole microseconds.

        Raises:
            InvalidTriggerError: The class is no dataclass, or a field is neither JSON,
                datetime nor timedelta.
        """
        if not dataclasses.is_dataclass(self):
            raise InvalidTriggerError(
                f"{_name(type(self))} is no dataclass: it must have its own to_dict()"
                " and from_dict()"
            )
        try:
            state = {
                each.name: write_field(getattr(self, each.name))
                for each in dataclasses.fields(self)
            }
            return freeze(state, name=_name(type(self)), limit=STATE_LIMIT)
        except ConfigurationError as error:
            raise InvalidTriggerError(str(error)) from None

    @classmethod
    def from_dict(cls, state: Mapping[str, JSON]) -> Self:
        """The trigger that ``to_dict`` was called on.

        Args:
            state: What ``to_dict`` returned.

        Raises:
            InvalidTriggerError: The state does not make a trigger of this class.
        """
        try:
            return cls(**{key: read_field(value) for key, value in state.items()})
        except (TypeError, ValueError) as error:
            raise InvalidTriggerError(f"{cls.kind}: {error}") from error


@dataclass(frozen=True)
class UnknownTrigger(Trigger):
    """Stands for a stored trigger that this process cannot load.

    It keeps what was stored, so that nothing is lost, and leaves firing to a node that
    knows the kind.

    Attributes:
        unknown_kind: The kind in the store.
        state: The state in the store.
        reason: Why it could not be loaded.
    """

    unknown_kind: str
    state: JSON = field(hash=False)
    reason: str = field(compare=False)

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Refuse: only a process that knows the kind can tell.

        Raises:
            UnknownTriggerError: Always.
        """
        raise UnknownTriggerError(self.reason)


def dump_trigger(trigger: Trigger) -> tuple[str, JSON]:
    """A trigger's kind and state, as a store keeps them.

    Raises:
        InvalidTriggerError: The trigger's class has no kind of its own, or the trigger
            has a state that is not JSON.
    """
    if isinstance(trigger, UnknownTrigger):
        return trigger.unknown_kind, trigger.state
    kind = getattr(trigger, "kind", None)
    if not isinstance(kind, str) or not _is_again(
        type(trigger), _kinds.get(kind, type(trigger))
    ):
        raise InvalidTriggerError(
            f"{_name(type(trigger))} needs a `kind` of its own, its stable name in the"
            " store"
        )
    return kind, trigger.to_dict()


def is_own(trigger: Trigger) -> bool:
    """Whether all its code is this package's, and nothing that may hang."""
    return _is_of_own_class(trigger) and trigger._is_made_of_own()


def phases_of(trigger: Trigger) -> frozenset[int] | None:
    """At which microseconds of their seconds it fires; None: that is not known."""
    return trigger._phases() if _is_of_own_class(trigger) else None


def years_of(trigger: Trigger, phase: int) -> Years | None:
    """Its fire times at one of these microseconds; None: they are not known as sets."""
    return trigger._years(phase) if _is_of_own_class(trigger) else None


def progression_of(trigger: Trigger) -> Progression | None:
    """Its fire times as a progression; None: they are none, or not known as such."""
    return trigger._progression() if _is_of_own_class(trigger) else None


def _is_of_own_class(trigger: Trigger) -> bool:
    return type(trigger).__module__.startswith(OWN)


def next_fire_time_of(trigger: Trigger, after: datetime) -> datetime | None:
    """A trigger's next fire time, checked: foreign code may return anything.

    Raises:
        InvalidTriggerError: The answer is no aware datetime later than ``after``, or
            None.
    """
    found: object = trigger.next_fire_time(after)
    if found is None:
        return None
    fire_time = checked_fire_time(trigger, found)
    if fire_time <= after:
        raise InvalidTriggerError(
            f"{_name(type(trigger))}.next_fire_time({after}) returned {shown(found)},"
            " which is not later"
        )
    return fire_time


def checked_fire_time(trigger: Trigger, found: object) -> datetime:
    """What a trigger returned as a fire time, as UTC.

    Raises:
        InvalidTriggerError: It is no aware datetime.
    """
    try:
        return utc(found, name=f"what {_name(type(trigger))} returned")
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None


def load_trigger(kind: str, state: JSON) -> Trigger:
    """The trigger of a stored kind and state; never raises.

    Returns:
        The trigger; an ``UnknownTrigger`` that keeps both if this process has no such
        kind or the kind does not accept the state.
    """
    cls = _kinds.get(kind)
    if cls is None and not _announced.is_set():
        _load_announced()
        cls = _kinds.get(kind)
    if cls is None:
        reason = f"no imported class has the trigger kind {shown(kind)}"
        if _broken:
            reason += f"; these announced triggers could not be imported: {_broken}"
        return UnknownTrigger(kind, state, reason)
    try:
        if not isinstance(state, Mapping):
            raise InvalidTriggerError(f"it is no object: {shown(state)}")
        return cls.from_dict(state)
    except Exception as error:
        reason = f"the stored state of a {shown(kind)} trigger does not load: {error}"
        return UnknownTrigger(kind, state, reason)


def _load_announced() -> None:
    """Import the triggers that installed packages announce; note the broken ones."""
    for announced in entry_points(group=ENTRY_POINTS):
        try:
            announced.load()
        except Exception as error:
            _broken[announced.name] = shown(error)
    _announced.set()


def utc(value: object, *, name: str) -> datetime:
    """An aware datetime as UTC.

    Raises:
        ConfigurationError: It is not a datetime, or has no time zone.
    """
    if not isinstance(value, datetime):
        raise ConfigurationError(f"{name} must be a datetime, not {shown(value)}")
    if value.tzinfo is UTC:
        return value
    if value.tzinfo is None or value.utcoffset() is None:
        raise ConfigurationError(
            f"{name} has no time zone: {shown(value)}; pass an aware datetime, such as"
            " datetime(2030, 1, 1, 9, tzinfo=UTC)"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ConfigurationError(
            f"{name} is out of range in UTC: {shown(value)}"
        ) from None


def _is_again(cls: type, known: type) -> bool:
    """Whether they are one class, defined once more.

    By name alone: within a function, a dataclass that is given slots has not got its
    qualified name when it is registered.
    """
    return (cls.__module__, cls.__name__) == (known.__module__, known.__name__)


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def write_field(value: object) -> JSON:
    """The value of a trigger's field as JSON."""
    if isinstance(value, datetime):
        return {"datetime": utc(value, name="a trigger's field").isoformat()}
    if isinstance(value, timedelta):
        return {"microseconds": value // timedelta(microseconds=1)}
    return cast("JSON", value)


def read_field(value: JSON) -> object:
    """What ``write_field`` was called on."""
    if isinstance(value, Mapping) and len(value) == 1:
        match dict(value):
            case {"datetime": str(text)}:
                return datetime.fromisoformat(text)
            case {"microseconds": int(count)}:
                return timedelta(microseconds=count)
    return value
