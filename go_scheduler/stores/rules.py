"""The rules that hold for every store: slots, edits, declared sets, and bounds.

Of all instances with the same slot one at a time has it: from its first start until it
has ended. The others are parked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from go_scheduler.checks import PRIORITIES, check_type
from go_scheduler.errors import ConfigurationError, ConflictError, QueueFullError
from go_scheduler.formatting import shown
from go_scheduler.models import (
    OVERRIDABLE,
    Outcome,
    Pause,
    RunEnd,
    Silence,
    Skipped,
    TaskDefinition,
    explained_by_pause,
    stage_of,
)
from go_scheduler.models.values import changed
from go_scheduler.policies import Overlap
from go_scheduler.triggers.base import Trigger, is_own, next_fire_time_of, utc
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.messages import Addition, RunOutcome, Tombstone

MOST_BUFFERED = 1000
"""Of one definition so many instances wait by ``Overlap.BUFFER_ALL``."""

_MICROSECOND = timedelta(microseconds=1)

LOCK = "lock "
"""What the names of slots begin with that definitions may share."""

_ALLOW = Overlap.ALLOW

_RUNS = "another instance of its definition ran when it was due"
_WAITS = "another instance of its definition waited for its turn when it was due"
_TOO_MANY = f"{MOST_BUFFERED:,} instances of its definition waited when it was due"
REPLACED = "a later instance of its definition took its place while it waited"


def uses_slot(definition: TaskDefinition) -> bool:
    """Whether any instance of a definition excludes another one."""
    return definition.overlap is not _ALLOW or definition.lock is not None


def slot_of(
    definition: TaskDefinition, *, fired: bool, backfilled: Overlap | None = None
) -> str | None:
    """The name of the slot that an instance takes; None: it excludes none.

    A lock is waited for by whatever is to run. Without one the slot is the definition's
    own; its trigger, if that waits for the end of a run, has no need of it.

    Args:
        definition: Its definition.
        fired: Whether it has a fire time, and was not made by hand.
        backfilled: The overlap that it was backfilled with, if it was.
    """
    if definition.lock is not None:
        return LOCK + definition.lock
    if backfilled is not None:
        return None if backfilled is Overlap.ALLOW else f"{definition.id}"
    return None if overlap_of(definition, fired=fired) is None else f"{definition.id}"


def slot_taken_by(instance: TaskInstance) -> str | None:
    """The slot of an instance, by its definition as it was read; None: it has none."""
    return slot_of(
        instance.definition,
        fired=instance.fire_time is not None,
        backfilled=instance.backfilled,
    )


def takes_slot(instance: TaskInstance) -> bool:
    """Whether an instance takes a slot, by its definition as it was read."""
    if not uses_slot(instance.definition) and instance.backfilled is None:
        return False
    return slot_taken_by(instance) is not None


def overlap_of(definition: TaskDefinition, *, fired: bool) -> Overlap | None:
    """What decides on an instance that is due and parked; None: it waits."""
    if definition.overlap is _ALLOW or (fired and definition.trigger.waits):
        return None
    return definition.overlap


def overlap_of_backfilled(backfilled: Overlap) -> Overlap | None:
    """By what one is judged that was backfilled with an overlap; None: it waits.

    Somebody wants each of them to run one after another: however many wait, none is
    skipped.
    """
    waits = backfilled in (Overlap.ALLOW, Overlap.BUFFER_ALL)
    return None if waits else backfilled


def exclusion_of(definition: TaskDefinition) -> tuple[object, ...]:
    """What has to be the same for its instances to exclude the same."""
    return definition.overlap, definition.lock, definition.trigger.waits


class Fate(NamedTuple):
    """What becomes of an instance that is due and parked.

    Attributes:
        reason: Why it is skipped; None: it waits.
        replaced: Those waiting that are skipped for its sake.
        stops: Whether the one that runs is asked to stop.
    """

    reason: str | None = None
    replaced: Sequence[UUID] = ()
    stops: bool = False


def fate_of(overlap: Overlap, *, runs: bool, waiting: Sequence[UUID]) -> Fate:
    """What becomes of an instance that is due while its slot is taken.

    Args:
        overlap: That of its definition, which is not to allow it.
        runs: Whether it is one of the same definition that has the slot.
        waiting: Those of the same definition that wait for it already; of what was
            backfilled, those that were, and else the others.
    """
    if overlap is Overlap.REPLACE:
        return Fate(replaced=waiting, stops=runs)
    if overlap is Overlap.SKIP and runs:
        return Fate(_RUNS)
    if overlap is Overlap.BUFFER_ALL:
        return Fate(_TOO_MANY if len(waiting) >= MOST_BUFFERED else None)
    return Fate(_WAITS if waiting else None)


UNFIRED = "its definition was given another trigger before it had fired"
"""Why fire times are skipped that had passed without an instance by then."""
MORE = "; there may have been more until then"
"""What is said as well if not all of them were counted."""
MOST_COUNTED = 100
"""So many of them are counted: others wait meanwhile."""


def unfired(old: TaskDefinition, now: datetime) -> Skipped | None:
    """The record of the fire times of a definition that have passed and not fired.

    Args:
        old: The definition before its trigger changes.
        now: The store's time.

    Returns:
        One record of all of them, which goes on until now if they are not all known;
        None: there are none.
    """
    first = old.next_fire_time
    if first is None or first > now:
        return None
    count, last = _passed(old.trigger, first, now)
    reason = UNFIRED
    if last is None:
        last, reason = now, UNFIRED + MORE
    since, pause = old.paused_at, old.last_pause
    if since is not None and since <= last:
        reason = explained_by_pause(reason, since, old.note)
    elif pause is not None:
        reason = pause.explained(reason, first, last)
    return Skipped(first=first, last=last, count=count, reason=reason)


def _passed(
    trigger: Trigger, first: datetime, now: datetime
) -> tuple[int, datetime | None]:
    """How many fire times there are up to now, and the last; None: maybe more."""
    count, last = 1, first
    if trigger.waits:
        return count, last
    # What is not ours may hang, and others wait meanwhile.
    while is_own(trigger) and count < MOST_COUNTED:
        try:
            following = next_fire_time_of(trigger, last)
        except Exception:
            # To give it another one may be the way out of just that.
            break
        if following is None or following > now:
            return count, last
        count, last = count + 1, following
    return count, None


EDITED = "its definition was given another trigger before it ran"
"""Why an instance is skipped whose fire time had passed when that happened."""


def check_each_once(definitions: Iterable[TaskDefinition]) -> None:
    """Refuse to put two definitions of one id: which one is to be kept?

    Raises:
        ConfigurationError: An id is there twice.
    """
    ids: set[UUID] = set()
    for each in definitions:
        if each.id in ids:
            key = "" if each.key is None else f", key {each.key!r},"
            raise ConfigurationError(f"definition {each.id}{key} is there twice")
        ids.add(each.id)


def check_revision(
    new: TaskDefinition, stored: TaskDefinition | Tombstone | None
) -> None:
    """Refuse to put over what somebody else has changed.

    Raises:
        ConflictError: The revision that is set is not the stored one; or it is 0, that
            of a new one, and there is one.
    """
    if new.revision == 0 and not isinstance(stored, TaskDefinition):
        return
    revision = None if stored is None else stored.revision
    if new.revision is not None and new.revision != revision:
        raise ConflictError(
            new.id, expected=new.revision, revision=revision, key=new.key
        )


def check_is_as_read(read: TaskDefinition, revision: int | None) -> None:
    """Refuse what was decided by a definition that somebody has changed since.

    Raises:
        ConflictError: The revision that is stored is not the one that was read.
    """
    if read.revision != revision:
        raise ConflictError(read.id, expected=read.revision, revision=revision)


PutAction: TypeAlias = Literal["new", "over", "kept", "edited", "rescheduled"]
"""What a put does: it makes a new life of an id, or none as that is over; or it leaves
the stored one as it is, or replaces it, with its fire times or without."""


def put_action(
    new: TaskDefinition, stored: TaskDefinition | None, remembered: Tombstone | None
) -> PutAction:
    """Decide what a put does; comparing runs the triggers' own code, which may raise.

    Args:
        new: The definition to put.
        stored: The one with its id.
        remembered: Else the tombstone of its id.

    Raises:
        ConflictError: As of ``check_revision``.
    """
    if stored is None:
        remembered = remembered if new.named else None
        check_revision(new, remembered)
        return "over" if is_over(new, remembered) else "new"
    check_revision(new, stored)
    if new.is_same(stored):
        return "kept"
    return "edited" if goes_on(stored, new) else "rescheduled"


def goes_on(old: TaskDefinition, new: TaskDefinition) -> bool:
    """Whether a put leaves a stored definition its series of fire times."""
    return new.trigger == old.trigger


def created(
    new: TaskDefinition, now: datetime, *, revision: int, owner: str | None = None
) -> TaskDefinition:
    """A new definition as it is stored; an owner is whoever declares it."""
    return changed(
        new,
        owner=owner,
        note=new.note if new.paused else None,
        paused_at=now if new.paused else None,
        last_pause=None,
        completed_at=_completed_at(new, now),
        revision=revision,
    )


def kept(
    old: TaskDefinition, new: TaskDefinition, *, owner: str | None = None
) -> TaskDefinition:
    """A stored definition that a put leaves as it is."""
    return changed(old, named=old.named or new.named, owner=owner or old.owner)


def edited(
    old: TaskDefinition, new: TaskDefinition, *, owner: str | None = None
) -> TaskDefinition:
    """A stored definition that keeps its trigger, and with it its fire times."""
    return changed(
        new,
        trigger=old.trigger,
        named=old.named or new.named,
        owner=owner or old.owner,
        next_fire_time=old.next_fire_time,
        paused=old.paused,
        note=old.note,
        paused_at=old.paused_at,
        last_pause=old.last_pause,
        overdue=old.overdue,
        completed_at=old.completed_at,
        revision=next_revision(old),
    )


def rescheduled(
    old: TaskDefinition,
    new: TaskDefinition,
    now: datetime,
    *,
    owner: str | None = None,
) -> TaskDefinition:
    """A stored definition that gets another trigger: it starts anew."""
    new = _without_fired(old, new, now)
    return changed(
        new,
        named=old.named or new.named,
        owner=owner or old.owner,
        paused=old.paused,
        note=old.note,
        paused_at=old.paused_at,
        last_pause=old.last_pause,
        completed_at=_completed_at(new, now),
        revision=next_revision(old),
    )


def _without_fired(
    old: TaskDefinition, new: TaskDefinition, now: datetime
) -> TaskDefinition:
    """A new series without the first fire times that have been fired by the old one.

    They pass while the call is on its way, and their instances may be deleted by now.
    What was overdue already when it was put is meant to run.
    """
    first, triggers = new.next_fire_time, (old.trigger, new.trigger)
    # What is not ours may hang, and others wait meanwhile.
    if new.overdue or not all(is_own(each) and not each.waits for each in triggers):
        return new
    for _ in range(MOST_COUNTED):
        if first is None or first > now:
            break
        if old.next_fire_time is not None and first >= old.next_fire_time:
            break
        try:
            if next_fire_time_of(old.trigger, first - _MICROSECOND) != first:
                break
            first = next_fire_time_of(new.trigger, first)
        except Exception:
            # To give it another trigger may be the way out of just that.
            break
    return changed(new, next_fire_time=first)


def fired(
    old: TaskDefinition, next_fire_time: datetime | None, now: datetime
) -> TaskDefinition:
    """A stored definition that has fired: completed if nothing is left to wait for."""
    if next_fire_time is not None:
        return changed(old, next_fire_time=utc(next_fire_time, name="next_fire_time"))
    completed_at = old.completed_at if old.trigger.waits else now
    return changed(old, next_fire_time=None, completed_at=completed_at)


def resumed(old: TaskDefinition, now: datetime) -> TaskDefinition:
    """A paused definition after its resume, with the pause that it had."""
    return changed(
        old,
        paused=False,
        note=None,
        paused_at=None,
        last_pause=Pause(since=old.paused_at or now, until=now, note=old.note),
        revision=next_revision(old),
    )


def next_revision(old: TaskDefinition) -> int:
    """The revision after a change."""
    return (old.revision or 0) + 1


def is_over_at_once(new: TaskDefinition) -> bool:
    """Whether nothing is left to wait for: no fire time, no end of a run, nobody."""
    trigger = new.trigger
    if isinstance(trigger, OnDemandTrigger):
        return not trigger.lasting
    return new.next_fire_time is None and not trigger.waits


def run_end(outcome: RunOutcome) -> RunEnd:
    """As what a run is kept that did not succeed."""
    if outcome.hung:
        return RunEnd.HUNG
    if outcome.outcome is Outcome.CANCELLED:
        return RunEnd.CANCELLED
    return RunEnd.FAILED


def _completed_at(new: TaskDefinition, now: datetime) -> datetime | None:
    return now if is_over_at_once(new) else None


Removed: TypeAlias = Literal["delete", "pause", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All the definitions that an owner wants, and no others.

    Attributes:
        owner: Whose set it is.
        definitions: The set; each id once.
        version: Which version of the program wants it; None: the owner has no versions.
        removed: What becomes of those of the owner's that are not in it: they are
            deleted or paused, or stay as they are.
        adopts: Whether definitions that are in no set are taken into this one.
    """

    owner: str
    definitions: Sequence[TaskDefinition]
    version: int | None = None
    removed: Removed = "delete"
    adopts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a declaration came to.

    Attributes:
        definitions: The set as it is now stored, in the order given; empty if the
            declaration is outdated.
        resumed: Those of them that the set had paused.
        deleted: The ids of those that were deleted.
        paused: Those that were paused.
        outdated_by: The version that is stored, if it is a later one: then nothing has
            changed.
    """

    definitions: Sequence[TaskDefinition] = ()
    resumed: Sequence[TaskDefinition] = ()
    deleted: Set[UUID] = frozenset()
    paused: Sequence[TaskDefinition] = ()
    outdated_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVersion:
    """Which declaration of an owner was the last.

    Attributes:
        owner: Whose.
        version: Its version, if it had one.
        declared_at: When it was made.
    """

    owner: str
    version: int | None
    declared_at: datetime


def is_outdated(declared: int | None, stored: int | None) -> bool:
    """Whether a set of this version comes after a later one has been declared."""
    return stored is not None and (declared is None or declared < stored)


def check_owners(
    declaration: Declaration, stored: Mapping[UUID, TaskDefinition]
) -> None:
    """Refuse to take what belongs to somebody else, or to nobody.

    What a set has paused, as it is declared there no more, may be taken.

    Args:
        declaration: What is declared.
        stored: Of its definitions those that there are.

    Raises:
        ConfigurationError: One of them is in another set, or in none.
    """
    for each in stored.values():
        if each.owner is None and not declaration.adopts:
            raise ConfigurationError(
                f"definition {each.id} is in no declared set: adopt=True, or --adopt"
                f" of a command, takes it into that of {declaration.owner!r}"
            )
        if each.owner not in (None, declaration.owner) and not was_removed(each):
            raise ConfigurationError(
                f"definition {each.id} is in the set of {each.owner!r}: let that one"
                f" declare it no more, or delete it, before {declaration.owner!r}"
                " declares it"
            )


def removal_note(owner: str) -> str:
    """Why a definition is paused that is no longer in its set."""
    return f"no longer declared by {owner}"


def was_removed(definition: TaskDefinition) -> bool:
    """Whether its set has paused a definition, and not somebody by hand."""
    owner, note = definition.owner, definition.note
    return definition.paused and owner is not None and note == removal_note(owner)


FULL = "%d of it wait, and no more may (max_queue)"
"""Why something is recorded as skipped, with the ``max_queue``."""


def checked_overrides(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that an instance has of its own, as a definition has them.

    Args:
        given: By their names; None as a value says nothing.

    Raises:
        ConfigurationError: One of them is wrong, or is none of ``OVERRIDABLE``.
    """
    check_type("overrides", given, Mapping)
    if others := [each for each in given if each not in OVERRIDABLE]:
        raise ConfigurationError(
            f"overrides has {shown(others[0])}: an instance may have of its own"
            f" {', '.join(OVERRIDABLE)}"
        )
    said = {name: value for name, value in given.items() if value is not None}
    of = TaskDefinition(trigger=OnDemandTrigger(), **said)
    return {name: getattr(of, name) for name in said}


def dropped(
    definition: TaskDefinition,
    additions: Sequence[Addition],
    *,
    known: Collection[UUID | str],
    waiting: int,
) -> Collection[UUID]:
    """Which additions are recorded as skipped, as too many wait.

    Args:
        definition: The definition, with a ``max_queue``.
        additions: What is to be added to it.
        known: The ids and keys of those that there are already.
        waiting: How many of the definition wait.

    Returns:
        The ids of the last ones, for which there is no room.

    Raises:
        QueueFullError: There are such, and the definition has them refused.
    """
    most = definition.max_queue
    assert most is not None
    firsts: dict[UUID | str, UUID] = {}
    for each in additions:
        if each.id not in known and each.key not in known:
            firsts.setdefault(each.key or each.id, each.id)
    beyond = list(firsts.values())[max(0, most - waiting) :]
    if beyond and definition.when_full == "refuse":
        raise QueueFullError(definition.id, most)
    return frozenset(beyond)


NORMAL = 1
"""The class of a definition that does not say."""

_ONE_IN = 8


class Turns:
    """The claims of a store, each with the order in which it asks the classes.

    A claim begins at the first class, but one in eight begins at the last, so that it
    does not starve; of the others, one in eight begins at the one before it; and so on.
    """

    def __init__(self) -> None:
        self._orders = cycle(_ORDERS)

    def next(self) -> tuple[int, ...]:
        """The order of the next claim."""
        return next(self._orders)


def _order(turn: int) -> tuple[int, ...]:
    for begin in reversed(PRIORITIES):
        if turn % _ONE_IN == _ONE_IN - 1:
            # Downwards: of the classes that have anything it is the last then.
            return (*range(begin, -1, -1), *range(begin + 1, len(PRIORITIES)))
        # Its number among those that do not begin there.
        turn -= turn // _ONE_IN
    return tuple(PRIORITIES)


# After so many turns they repeat.
_ORDERS = [_order(turn) for turn in range(_ONE_IN ** (len(PRIORITIES) - 1))]


log = logging.getLogger("go_scheduler.stores.rules")


def is_over(new: TaskDefinition, remembered: Tombstone | None) -> bool:
    """Whether a definition has ended before, and is not to run again."""
    return remembered is not None and new.trigger == remembered.trigger


def ended_before(new: TaskDefinition, remembered: Tombstone) -> TaskDefinition:
    """A definition that has ended before, as it is answered; nothing of it is kept."""
    return replace(
        new,
        owner=None,
        paused=False,
        note=None,
        paused_at=None,
        next_fire_time=None,
        completed_at=remembered.completed_at,
        revision=remembered.revision,
    )


def note_forgotten(count: int, *, most: int) -> None:
    """Say that ids were forgotten before their time, if any were."""
    if count:
        log.warning(
            "%d ids of definitions that have ended are forgotten: only the %d that"
            " ended last are remembered; scheduled again, the others run again",
            count,
            most,
        )


def silence_of(
    started_at: datetime | None,
    *,
    accepted_at: datetime | None,
    start_by: datetime | None,
    worker: str | None,
) -> Silence | None:
    """What is known of a run whose claim has lapsed, by its row before it is claimed.

    Returns:
        None: it had not started, or was on no bus.
    """
    stage = stage_of(accepted_at, start_by)
    if stage is None or started_at is None:
        return None
    within = None if start_by is None else start_by - (accepted_at or started_at)
    return Silence(stage=stage, worker=worker, within=within)


def with_silences(
    claimed: Sequence[TaskInstance], silences: Mapping[UUID, Silence | None]
) -> list[TaskInstance]:
    """The instances of a claim, those with it to whom it belongs by their ids."""
    if not silences:
        return list(claimed)
    return [changed(each, silence=silences.get(each.id)) for each in claimed]
