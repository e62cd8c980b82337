"""Firing and edits: each fire time gets exactly one instance, whoever edits meanwhile.

Nodes read a definition and plan its next step, and the step counts only if nothing has
changed since. An edit is a transaction of two statements: it takes the definition, and
then sees to its instances; what is theirs may start in between. Two triggers share some
of their fire times. Whoever gives it another one has asked that for its first fire time
some time before. What has ended may be deleted at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.checker import Model, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.protocol.checker import Name

TIMES = 3
"""Fire times are the instants from 0 on; this one is none: nothing fires any more."""
TRIGGERS = ((0, 1, 2), (0, 2))
BY_HAND = -1

GUARDS = {
    "same next": "a step counts only if the next fire time is as it was read",
    "same revision": "a step counts only if nobody has edited the definition since",
    "not paused": "a step of a paused definition does not count",
    "unique": "a definition has one instance for a fire time",
    "revision rises": "a definition made anew has a higher revision than before",
    "definition first": "an edit takes the definition before its instances",
    "last to stay": "a pause takes nothing back that comes before what has started",
    "records": "an edit records what had passed without an instance",
    "share": "what is added by hand holds on to its definition until it is there",
    "has fired": "another trigger does not begin with what the former one has fired",
    "has begun": "another trigger does not begin with what has begun ahead of its time",
}


class Definition(NamedTuple):
    """A row of definitions; ``revision`` is remembered when it is not there.

    ``fired_until`` is a fire time that had begun when it was given another trigger.
    """

    there: bool
    revision: int
    trigger: int
    next: int
    paused: bool
    fired_until: int = BY_HAND


class Instance(NamedTuple):
    """A row of instances that has not been cleaned up.

    Attributes:
        time: Its fire time, or that it was added by hand.
        stage: Whether it waits, has started, or has ended.
    """

    time: int
    stage: str


class Plan(NamedTuple):
    """A step that a node is about to take: the definition as it was read."""

    revision: int = 0
    trigger: int = 0
    next: int = TIMES


class Edit(NamedTuple):
    """An edit under way, and the definition as it has read it.

    Attributes:
        kind: What it does.
        of: The definition.
        asked_at: When another trigger was asked for its first fire time.
    """

    kind: str
    of: Definition
    asked_at: int = 0


class State(NamedTuple):
    """The tables, what is under way, and of history what the invariants need.

    Attributes:
        now: The fire times before this instant have passed.
        definition: The definition.
        instances: Its instances.
        plans: The step that each node is about to take.
        edit: The edit under way.
        adding: Whether an instance is being added by hand.
        edits: How many edits may still come.
        owed: From which fire time on the trigger is answerable.
        changed: Whether the definition has been given another trigger.
        served: Which fire times have got an instance, or are recorded as skipped.
        starts: How often an instance of each fire time was started.
    """

    now: int
    definition: Definition
    instances: tuple[Instance, ...]
    plans: tuple[Plan, ...]
    edit: Edit | None
    adding: bool
    edits: int
    owed: int
    changed: bool
    served: tuple[bool, ...]
    starts: tuple[int, ...]
    broken: str = ""


class Firing(Model[State]):
    """Nodes that fire a definition which users edit, pause, delete and make anew.

    Args:
        nodes: How many nodes fire.
        edits: How many edits there are.
        without: The guard that is left out, to see what it is for.
    """

    def __init__(self, *, nodes: int = 2, edits: int = 2, without: str = "") -> None:
        self._first = State(
            now=0,
            definition=Definition(True, 1, 0, 0, False),
            instances=(),
            plans=(Plan(),) * nodes,
            edit=None,
            adding=False,
            edits=edits,
            owed=0,
            changed=False,
            served=(False,) * TIMES,
            starts=(0,) * TIMES,
        )
        self._without = without

    def alike(self, state: State) -> State:
        return state._replace(plans=tuple(sorted(state.plans)))

    def broken(self, state: State) -> str:
        of = state.definition
        if not of.there and any(each.stage != "ended" for each in state.instances):
            return "an instance is open though its definition is deleted"
        if max(state.starts) > 1:
            return "a fire time has started twice"
        if of.there and of.next not in (*TRIGGERS[of.trigger], TIMES):
            return "the next fire time is none of its trigger's"
        if of.there and any(
            state.owed <= time < of.next and not state.served[time]
            for time in TRIGGERS[of.trigger]
        ):
            return "a fire time is lost"
        return state.broken

    def is_good(self, state: State) -> bool:
        """All have fired and ended, or nobody wants them any more."""
        of = state.definition
        is_over = all(each.stage == "ended" for each in state.instances) or of.paused
        return is_over and (not of.there or of.paused or of.next == TIMES)

    def steps(self, state: State) -> Iterator[tuple[Name, State]]:
        if state.now < TIMES:
            yield ("time passes:", state.now), state._replace(now=state.now + 1)
        for node, plan in enumerate(state.plans):
            if plan != Plan():
                # Who has locked the definition is waited for.
                if state.edit is None or self._without == "definition first":
                    yield (node, "fires", plan.next), self._fired(state, node)
            elif self._is_due(state):
                of = state.definition
                read = Plan(of.revision, of.trigger, of.next)
                yield (
                    (node, "reads that", of.next, "is due"),
                    _planned(state, node, read),
                )
        for each in set(state.instances):
            yield from self._goes_on(state, each)
        yield from self._adds(state)
        if state.edit is not None:
            yield ("it commits:", state.edit.kind), self._committed(state)
        elif state.edits and not (state.adding and self._without != "share"):
            yield from self._begins(state._replace(edits=state.edits - 1))

    def _is_due(self, state: State) -> bool:
        of = state.definition
        # Instances are made ahead of their time.
        return (
            of.there and not of.paused and of.next <= state.now + 1 and of.next < TIMES
        )

    def _fired(self, state: State, node: int) -> State:
        plan, of = state.plans[node], state.definition
        state = _planned(state, node, Plan())
        counts = (
            of.there
            and (of.next == plan.next or self._without == "same next")
            and (of.revision == plan.revision or self._without == "same revision")
            and (not of.paused or self._without == "not paused")
        )
        if not counts:
            return state
        moved = of._replace(next=_next_after(plan.trigger, plan.next))
        state = state._replace(definition=moved)
        is_there = any(each.time == plan.next for each in state.instances)
        if plan.next == of.fired_until and self._without != "has begun":
            return state
        if is_there and self._without != "unique":
            return state
        return _added(state, Instance(plan.next, "waiting"))

    def _goes_on(self, state: State, each: Instance) -> Iterator[tuple[Name, State]]:
        """Its start is recorded ahead of its time; its handler returns after it."""
        # That two fire times have begun ahead of their time is not covered.
        ahead = any(
            other.stage != "waiting" and other.time >= state.now
            for other in state.instances
        )
        may_start = not state.definition.paused and (each.time < state.now or not ahead)
        if each.stage == "waiting" and may_start:
            after = _added(_removed(state, each), each._replace(stage="started"))
            if each.time != BY_HAND:
                starts = put(state.starts, each.time, state.starts[each.time] + 1)
                after = after._replace(starts=starts)
            yield ("starts:", each.time), after
        if each.stage == "started" and each.time < state.now:
            after = _added(_removed(state, each), each._replace(stage="ended"))
            yield ("ends:", each.time), after
        if each.stage == "ended":
            yield ("is cleaned up:", each.time), _removed(state, each)

    def _adds(self, state: State) -> Iterator[tuple[Name, State]]:
        if state.adding:
            # The definition was there in the snapshot of the statement.
            after = _added(state._replace(adding=False), Instance(BY_HAND, "waiting"))
            yield ("an instance is there that was added by hand",), after
        elif state.edits and state.definition.there and state.edit is None:
            after = state._replace(adding=True, edits=state.edits - 1)
            yield ("an instance is being added by hand",), after

    # Edits.

    def _begins(self, state: State) -> Iterator[tuple[Name, State]]:
        of = state.definition
        if not of.there:
            for trigger in range(len(TRIGGERS)):
                yield ("is made anew with trigger", trigger), self._made(state, trigger)
            return
        for kind in ("edit", "resume" if of.paused else "pause", "delete"):
            yield ("somebody begins to:", kind), state._replace(edit=Edit(kind, of))
        # That a second one is asked some time before is not covered.
        since = state.now if state.changed else 0
        for asked_at in range(since, state.now + 1):
            name = ("somebody begins to put another trigger, asked at", asked_at)
            yield name, state._replace(edit=Edit("trigger", of, asked_at))

    def _made(self, state: State, trigger: int) -> State:
        remembered = state.definition.revision
        revision = 1 if self._without == "revision rises" else remembered + 1
        first = _next_after(trigger, state.now - 1)
        return state._replace(
            definition=Definition(True, revision, trigger, first, False),
            instances=tuple(each for each in state.instances if each.stage != "ended"),
            owed=first,
            changed=False,
            served=(False,) * TIMES,
            starts=(0,) * TIMES,
        )

    def _committed(self, state: State) -> State:
        assert state.edit is not None
        kind, of, asked_at = state.edit
        of = of._replace(revision=of.revision + 1)
        state = state._replace(edit=None, definition=of)
        if kind == "pause":
            return self._paused(state)
        if kind == "resume":
            return state._replace(definition=of._replace(paused=False))
        if kind == "trigger":
            return self._rescheduled(state, asked_at)
        if kind == "delete":
            return state._replace(
                definition=of._replace(there=False, revision=of.revision - 1),
                instances=tuple(
                    each for each in state.instances if each.stage == "ended"
                ),
            )
        return state

    def _paused(self, state: State) -> State:
        begun = [each.time for each in state.instances if each.stage != "waiting"]
        last = max(begun, default=BY_HAND)
        if self._without == "last to stay":
            last = BY_HAND
        back = [
            each
            for each in state.instances
            if each.stage == "waiting" and each.time >= state.now and each.time > last
        ]
        state = _taken_back(state, back)
        times = [each.time for each in back]
        first = min([*times, state.definition.next])
        paused = state.definition._replace(paused=True, next=first)
        return state._replace(definition=paused)

    def _rescheduled(self, state: State, asked_at: int) -> State:
        of, now = state.definition, state.now
        waiting = [
            each
            for each in state.instances
            if each.stage == "waiting" and each.time != BY_HAND
        ]
        state = _taken_back(state, [each for each in waiting if each.time >= now])
        for each in waiting:
            if each.time < now:
                # Its record says that it was skipped.
                state = _removed(state, each)
        if self._without != "records":
            served = (
                is_served or of.next <= time < now
                for time, is_served in enumerate(state.served)
            )
            state = state._replace(served=tuple(served))
        owed = (time for time in TRIGGERS[of.trigger] if state.owed <= time < now)
        if not all(state.served[time] for time in owed):
            state = state._replace(broken="an edit loses a fire time that had passed")
        trigger = 1 - of.trigger
        first = _next_after(trigger, (now if state.changed else asked_at) - 1)
        while self._has_fired(of, first, now):
            first = _next_after(trigger, first)
        begun = (each.time for each in state.instances if each.time >= now)
        fired_until = max(begun, default=of.fired_until)
        return state._replace(
            definition=of._replace(
                trigger=trigger, next=first, fired_until=fired_until
            ),
            owed=first,
            changed=True,
        )

    def _has_fired(self, of: Definition, time: int, now: int) -> bool:
        return (
            time < min(now, of.next)
            and time in TRIGGERS[of.trigger]
            and self._without != "has fired"
        )


def _next_after(trigger: int, time: int) -> int:
    return min((each for each in TRIGGERS[trigger] if each > time), default=TIMES)


def _planned(state: State, node: int, plan: Plan) -> State:
    return state._replace(plans=put(state.plans, node, plan))


def _added(state: State, instance: Instance) -> State:
    state = state._replace(instances=tuple(sorted((*state.instances, instance))))
    return _served(state, instance.time, is_served=True)


def _removed(state: State, instance: Instance) -> State:
    rest = list(state.instances)
    rest.remove(instance)
    return state._replace(instances=tuple(rest))


def _taken_back(state: State, back: list[Instance]) -> State:
    """Without these, whose fire times are to be served anew."""
    for each in back:
        state = _served(_removed(state, each), each.time, is_served=False)
    return state


def _served(state: State, time: int, *, is_served: bool) -> State:
    if time == BY_HAND:
        return state
    return state._replace(served=put(state.served, time, is_served))
