"""The trigger interface, the registry of trigger classes, and their stored form."""

from __future__ import annotations

import dataclasses
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from types import MemberDescriptorType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Self,
    TypeVar,
    cast,
)

from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    InvalidTriggerError,
    UnknownTriggerError,
)
from go_scheduler.formatting import a, shown
from go_scheduler.json import JSON, FrozenObject, freeze
from go_scheduler.triggers.times import FIRST_INSTANT, MICROSECOND

if TYPE_CHECKING:
    from go_scheduler.triggers.fire_time_sets import FireTimes

T = TypeVar("T")


class worked_out(Generic[T]):
    """A property that is computed when it is first read, and kept.

    Two threads may both compute it. Up to Python 3.11 ``functools.cached_property``
    locks it for all objects meanwhile: a user's trigger that hangs in one of them
    would hang all others.

    Args:
        compute: Computes the value.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        value: T = self._compute(instance)
        instance.__dict__[self._name] = value
        return value


class RefusedError(Exception):
    """A text cannot be read. The message says why, and does not repeat the text."""


class UndecidedError(InvalidTriggerError):
    """The search for a fire time was given up: there may be one or none."""


ENTRY_POINTS = "go_scheduler.triggers"

OWN_KINDS: Mapping[str, str] = {
    "all_of": "go_scheduler.triggers.combining",
    "any_of": "go_scheduler.triggers.combining",
    "cron": "go_scheduler.triggers.cron",
    "delay": "go_scheduler.triggers.simple",
    "except": "go_scheduler.triggers.combining",
    "interval": "go_scheduler.triggers.simple",
    "limited": "go_scheduler.triggers.combining",
    "on_demand": "go_scheduler.triggers.simple",
    "once": "go_scheduler.triggers.simple",
    "only": "go_scheduler.triggers.combining",
    "recurrence": "go_scheduler.triggers.recurrence",
}
"""The module of each kind of this package; it is imported when the kind is needed."""

KIND_IS_A_FIELD = (
    ".kind is a field of the dataclass: annotate it as ClassVar[str], or not at all"
)
"""An error; the name of the class goes before it."""

_kinds: dict[str, type[Trigger]] = {}
_imported: set[str] = set()
_announced = threading.Event()
_loading: set[int] = set()
"""The threads that import triggers of entry points."""
_broken: dict[str, str] = {}


def register(cls: type[Trigger], kind: object) -> None:
    """Register the class of a kind.

    Raises:
        ConfigurationError: The kind is no name, or another class has it.
    """
    # That is what a dataclass with slots makes of its fields.
    if isinstance(kind, MemberDescriptorType):
        raise ConfigurationError(f"{name_of(cls)}{KIND_IS_A_FIELD}")
    if not isinstance(kind, str) or not kind:
        raise ConfigurationError(
            f"{cls.__qualname__}.kind must be a name: {shown(kind)}"
        )
    if OWN_KINDS.get(kind, cls.__module__) != cls.__module__:
        import_module(OWN_KINDS[kind])
    # A module loaded again and a dataclass given slots define the class anew.
    if not is_registered(cls, kind):
        raise ConfigurationError(
            f"{name_of(cls)}: the trigger kind {shown(kind)} is taken by"
            f" {name_of(_kinds[kind])}"
        )
    _kinds[kind] = cls


def is_registered(cls: type[Trigger], kind: str) -> bool:
    """Whether a class has a kind, or no class has it.

    Only names are compared: a dataclass with slots, defined within a function, does not
    have its qualified name yet when it is registered.
    """
    known = _kinds.get(kind, cls)
    return (cls.__module__, cls.__name__) == (known.__module__, known.__name__)


def find(kind: str) -> type[Trigger] | None:
    """The class of a kind. Its module is imported if necessary.

    Raises:
        ImportError: The module is this package's own and cannot be imported.
    """
    # While another thread imports it, a class may be registered and not complete.
    if kind in OWN_KINDS and kind not in _imported:
        import_module(OWN_KINDS[kind])
        _imported.add(kind)
    elif not _announced.is_set() and (
        kind not in _kinds or _loading - {threading.get_ident()}
    ):
        _load_announced()
    return _kinds.get(kind)


def why_unknown(kind: str) -> str:
    """Why there is no class of a kind."""
    reason = f"no imported class has the trigger kind {shown(kind)}"
    if _broken:
        reason += f"; these announced triggers could not be imported: {_broken}"
    return reason


def name_of(cls: type) -> str:
    """A class as errors name it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _load_announced() -> None:
    """Import the triggers that installed packages have as entry points."""
    # It is slow to import, and most programs need no entry points.
    from importlib.metadata import entry_points

    _loading.add(threading.get_ident())
    for announced in entry_points(group=ENTRY_POINTS):
        try:
            announced.load()
        except Exception as error:
            _broken[announced.name] = shown(error)
    _announced.set()
    _loading.discard(threading.get_ident())


STATE_LIMIT = 64 * 1024
WRITE_BOTH = ": write to_dict() and from_dict()"
"""The end of an error for a trigger whose fields are not stored as they are."""
OWN = "go_scheduler."
_PLAIN = (bool, int, float, str, list, tuple, Mapping, datetime, timedelta)
"""The types of fields that the default ``to_dict`` can store."""
_BRIEF = frozenset((bool, datetime, timedelta, type(None)))
"""The types among them whose values are small, and valid in any store."""


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
        if (kind := cls.__dict__.get("kind")) is not None:
            register(cls, kind)

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
        """The first fire time of a definition.

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
            trigger as Python shows it. The time zone is no part of it: ``explain`` says
            it, and so do lists and pages.
        """
        return repr(self)

    def warnings(self, now: datetime) -> Sequence[str]:
        """Warnings about mistakes that its author may have made, a sentence each.

        Of this package's own triggers, ``schedule()`` shows them to whoever creates or
        changes a definition.

        Args:
            now: When it is scheduled.
        """
        return ()

    def parts(self) -> Sequence[Trigger]:
        """The triggers that it is made of; empty for most."""
        return ()

    def _fire_times(self) -> FireTimes | None:
        """All its fire times as sets; None: they are not known as such.

        Only triggers of this package are asked. Other triggers are asked for one fire
        time after the other.
        """
        return None

    def _progression(self) -> Progression | None:
        """Its fire times as a progression, if they are one."""
        return None

    def _is_made_of_own(self) -> bool:
        """Whether all triggers and calendars that it calls are this package's."""
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
        try:
            names = _fields_of(type(self))
            values = [getattr(self, each) for each in names]
            if _BRIEF.issuperset(map(type, values)):
                return FrozenObject(zip(names, map(write_field, values), strict=True))
            state = {}
            for each, value in zip(names, values, strict=True):
                if value is not None and not isinstance(value, _PLAIN):
                    raise InvalidTriggerError(
                        f"{name_of(type(self))}[{each!r}] is"
                        f" {a(type(value).__name__)}, which JSON cannot hold"
                        f"{WRITE_BOTH}"
                    )
                state[each] = write_field(value)
            return freeze(state, name=name_of(type(self)), limit=STATE_LIMIT)
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


@cache
def _fields_of(cls: type[Trigger]) -> Sequence[str]:
    if not dataclasses.is_dataclass(cls):
        raise InvalidTriggerError(
            f"{name_of(cls)} is no dataclass: it must have its own to_dict() and"
            " from_dict()"
        )
    return [each.name for each in dataclasses.fields(cls)]


def is_own(trigger: Trigger) -> bool:
    """Whether all its code is this package's, so that it cannot hang."""
    return is_of_own_class(trigger) and trigger._is_made_of_own()


def is_brief(trigger: Trigger) -> bool:
    """Whether its fields are few and plain, so that any store can keep them."""
    names = _fields_of(type(trigger))
    return _BRIEF.issuperset([type(getattr(trigger, each)) for each in names])


def progression_of(trigger: Trigger) -> Progression | None:
    """Its fire times as a progression; None: they are none, or not known as such."""
    return trigger._progression() if is_of_own_class(trigger) else None


def is_of_own_class(trigger: Trigger) -> bool:
    """Whether its class is this package's; its parts may be a third party's."""
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
            f"{name_of(type(trigger))}.next_fire_time({after}) returned {shown(found)},"
            " which is not later"
        )
    return fire_time


_EARLIEST = FIRST_INSTANT + MICROSECOND


def fire_times(trigger: Trigger, start: datetime, end: datetime) -> Iterator[datetime]:
    """The fire times of a trigger, from ``start`` on and before ``end``.

    Raises:
        InvalidTriggerError: It raised, or returned what is no fire time.
    """
    after = max(start, _EARLIEST) - MICROSECOND
    while True:
        try:
            found = next_fire_time_of(trigger, after)
        except GoSchedulerError:
            raise
        except Exception as error:
            text = f"{shown(trigger)} raised {shown(error)}"
            raise InvalidTriggerError(text) from error
        if found is None or found >= end:
            return
        yield found
        after = found


def checked_fire_time(trigger: Trigger, found: object) -> datetime:
    """A fire time that a trigger returned, as UTC.

    Raises:
        InvalidTriggerError: It is no aware datetime.
    """
    return checked_instant(found, name=f"what {name_of(type(trigger))} returned")


def checked_instant(value: object, *, name: str) -> datetime:
    """An aware datetime as UTC, for an argument of a trigger.

    Raises:
        InvalidTriggerError: It is not a datetime, or has no time zone.
    """
    try:
        return utc(value, name=name)
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None


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


def write_field(value: object) -> JSON:
    """The value of a trigger's field as JSON."""
    if isinstance(value, datetime):
        text = utc(value, name="a trigger's field").isoformat()
        return FrozenObject({"datetime": text})
    if isinstance(value, timedelta):
        return FrozenObject({"microseconds": value // timedelta(microseconds=1)})
    return cast("JSON", value)


def read_field(value: JSON) -> object:
    """The value that ``write_field`` was called on."""
    if isinstance(value, Mapping) and len(value) == 1:
        [(kind, inner)] = value.items()
        if kind == "datetime" and isinstance(inner, str):
            return datetime.fromisoformat(inner)
        if kind == "microseconds" and isinstance(inner, int):
            return timedelta(microseconds=inner)
    return value


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

    def describe(self) -> str:
        """Say why this process does not know when it fires."""
        return f"not known here: {self.reason}"


def dump_trigger(trigger: Trigger) -> tuple[str, JSON]:
    """A trigger's kind and state, as a store keeps them.

    Raises:
        InvalidTriggerError: The trigger's class has no kind of its own, or is a
            dataclass that can be changed, or the trigger has a state that is not JSON.
    """
    if isinstance(trigger, UnknownTrigger):
        return trigger.unknown_kind, trigger.state
    _check_class(type(trigger))
    kind = getattr(trigger, "kind", None)
    if not isinstance(kind, str) or not is_registered(type(trigger), kind):
        raise InvalidTriggerError(
            f"{name_of(type(trigger))} needs a `kind` of its own, its stable name in"
            " the store"
        )
    return kind, trigger.to_dict()


@cache
def _check_class(cls: type[Trigger]) -> None:
    """Refuse a dataclass that is not frozen, or that has its kind as a field."""
    if not is_dataclass(cls):
        return
    if any(each.name == "kind" for each in fields(cls)):
        raise InvalidTriggerError(f"{name_of(cls)}{KIND_IS_A_FIELD}")
    if not cls.__dataclass_params__.frozen:
        raise InvalidTriggerError(
            f"{name_of(cls)} can be changed, and a trigger is a value: write"
            " @dataclass(frozen=True)"
        )


def load_trigger(kind: str, state: JSON) -> Trigger:
    """The trigger of a stored kind and state; never raises.

    Returns:
        The trigger; an ``UnknownTrigger`` that keeps both if this process has no such
        kind or the kind does not accept the state.
    """
    try:
        cls = find(kind)
        if cls is None:
            return UnknownTrigger(kind, state, why_unknown(kind))
        if not isinstance(state, Mapping):
            raise InvalidTriggerError(f"it is no object: {shown(state)}")
        return cls.from_dict(state)
    except Exception as error:
        reason = f"the stored state of a {shown(kind)} trigger does not load: {error}"
        return UnknownTrigger(kind, state, reason)
