"""What stores were asked and answered, and whether a store that keeps its rules may.

``recorded`` writes each call of a store into a file: when it began, and what it was
answered when it ended. ``check_traces`` reads all files of a folder. For each instance
and each definition it looks for an order of the calls, each between its begin and its
end, in which all answers are right. A call without an answer may have been carried out
at any time after it began, or never. One that a store has repeated, because it lost the
connection, may have been carried out before that as well.

``python -m tests.traces FILE WORD…`` is ``go_scheduler WORD…`` with its calls written
into a file.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from unittest.mock import patch

from go_scheduler.clock import SystemClock
from go_scheduler.errors import GoSchedulerError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta
    from pathlib import Path

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Claim, Claimant


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one call did to one instance or definition.

    Attributes:
        kind: What it did: "claim", "start", "fire", …
        of: The id of the instance or definition; None: of any instance.
        attempt: Under which claim.
        ok: Whether it was done; None: nobody knows.
        to: What it made of it: an outcome, or a revision and a next fire time.
        read: What a firing had read.
        lease: For how many seconds the claim holds then.
        started: Whether it has started, too.
        definition: The definition of the instance.
        begin: When the call began, in seconds.
        end: When it ended.
    """

    kind: str
    of: str | None
    attempt: int = 0
    ok: bool | None = None
    to: object = None
    read: object = None
    lease: float = 0
    started: bool = False
    definition: str | None = None
    begin: float = 0
    end: float = math.inf


# Recording.


def _instance(kind: str, of: TaskInstance, by: Claimant, **values: Any) -> Step:
    lease = by.lease
    if of.started_at is not None and of.expires_at is not None:
        lease = of.expires_at - of.started_at
    return Step(
        kind=kind,
        of=str(of.id),
        attempt=of.attempt,
        ok=True,
        lease=lease.total_seconds(),
        started=of.started_at is not None,
        definition=str(of.definition.id),
        **values,
    )


def _claim(kind: str, of: Claim, done: Any, **values: Any) -> Step:
    ok = None if done is None else of.instance_id in done
    return Step(kind=kind, of=str(of.instance_id), attempt=of.attempt, ok=ok, **values)


def _stored(kind: str, of: TaskDefinition) -> Step:
    return Step(kind=kind, of=str(of.id), ok=True, to=_at(of))


def _at(of: TaskDefinition) -> object:
    return [of.revision, of.next_fire_time and of.next_fire_time.isoformat()]


def _claimed(asked: Any, answer: Any) -> Iterator[Step]:
    if answer is None:
        yield Step(kind="claim", of=None, started=True)
    else:
        yield from (_instance("claim", each, asked.claimant) for each in answer)


def _started(asked: Any, answer: Any) -> Iterator[Step]:
    """What has been made, and was started at once."""
    if asked.claimant is not None:
        made = answer if isinstance(answer, list | tuple | None) else answer.started
        node = asked.claimant.node
        new = made and [each for each in made if each.claimed_by == node]
        yield from _claimed(asked, new)


def _start(asked: Any, answer: Answer[Any] | None) -> Iterator[Step]:
    done = None if answer is None else {each.id: each for each in answer.done}
    claims = {(each.instance_id, each.attempt) for each in asked.claims}
    for each in asked.claims:
        found = None if done is None else done.get(each.instance_id)
        if (
            found
            and found.attempt != each.attempt
            and (found.id, found.attempt) in claims
        ):
            # A node asked for a former claim as well, and this is no answer to that.
            yield _claim("start", each, {})
        elif found is None:
            yield _claim(
                "start", each, done, lease=asked.claimant.lease.total_seconds()
            )
        else:
            kind = "park" if found.parked else "start"
            yield replace(_instance(kind, found, asked.claimant), attempt=each.attempt)


def _fire(asked: Any, answer: Any) -> Iterator[Step]:
    for each in asked.firings:
        # One that waits is moved on by ends as well.
        if not each.definition.trigger.waits:
            yield Step(
                kind="fire",
                of=str(each.definition.id),
                ok=answer and each.definition.id in answer.done,
                read=_at(each.definition),
                to=[
                    each.definition.revision,
                    each.next_fire_time and each.next_fire_time.isoformat(),
                ],
            )
    yield from _started(asked, answer)


def _put(asked: Any, answer: Any) -> Iterator[Step]:
    if answer is None:
        yield from (Step(kind="edit", of=str(each.id)) for each in asked.definitions)
    else:
        fired = {each.definition.id for each in answer.started}
        for each in answer.definitions:
            step = _stored("edit", each)
            yield replace(step, to=None) if each.id in fired else step
    yield from _started(asked, answer)


def _edit(asked: Any, answer: Any) -> Iterator[Step]:
    if answer is None:
        yield from (Step(kind="edit", of=str(each)) for each in asked.ids)
    else:
        yield from (_stored("edit", each) for each in answer)


def _declare(asked: Any, answer: Any) -> Iterator[Step]:
    # What is not named any more may have been deleted: of that nobody is sure.
    yield from (
        Step(kind="edit", of=str(each.id)) for each in asked.declaration.definitions
    )
    if answer is not None:
        yield from (
            Step(kind="delete", of=str(each), ok=True) for each in answer.deleted
        )


def _delete(asked: Any, answer: Any) -> Iterator[Step]:
    ok = None if answer is None else True
    yield from (Step(kind="delete", of=str(each), ok=ok) for each in asked.ids)


def _review(_: Any, answer: Any) -> Iterator[Step]:
    if answer is not None:
        for each in (*answer.skipped, *answer.replaced):
            if each.outcome is not None:
                yield Step(kind="end", of=str(each.id), ok=True, to=each.outcome.value)


def _cancel(asked: Any, answer: Any) -> Iterator[Step]:
    for each in asked.cancellations:
        if answer is None:
            yield Step(kind="cancel", of=str(each))
        else:
            found = answer.get(each)
            yield Step(kind="cancel", of=str(each), ok=True, to=found and found.value)


STEPS: Mapping[str, Callable[[Any, Any], Iterator[Step]]] = {
    "claim_instances": _claimed,
    "start_instances": _start,
    "renew_claims": lambda asked, answer: (
        _claim(
            "renew" if each.worker is None else "hand on",
            each.claim,
            answer and answer.done,
            lease=each.lease.total_seconds(),
        )
        for each in asked.renewals
    ),
    "release_instances": lambda asked, answer: (
        _claim("release", each.claim, answer and answer.done) for each in asked.releases
    ),
    "finish_instances": lambda asked, answer: (
        _claim(
            "finish",
            each.claim,
            answer and answer.done,
            to=each.outcome and each.outcome.value,
        )
        for each in asked.outcomes
    ),
    "cancel_instances": _cancel,
    "reopen_instances": lambda asked, answer: (
        Step(kind="reopen", of=str(each), ok=None if answer is None else each in answer)
        for each in asked.ids
    ),
    "review_parked": _review,
    "fire_definitions": _fire,
    "add_instances": _started,
    "put_definitions": _put,
    "declare_definitions": _declare,
    "pause_definitions": _edit,
    "resume_definitions": _edit,
    "delete_definitions": _delete,
}
"""What each call of a store does, as it was asked, and as it was answered."""


@contextmanager
def recorded(
    store: type[Store],
    file: Path,
    *,
    elapsed: Callable[[Any], timedelta] = lambda _: SystemClock().elapsed(),
) -> Iterator[None]:
    """Write the calls of all stores of a class into a file.

    Args:
        store: The class.
        file: Where they are added.
        elapsed: The time by a store, on a clock that all who write have in common.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    written = os.open(file, flags)
    numbers = count()
    within = threading.local()

    def write(of: Store, **line: object) -> None:
        line["at"] = elapsed(of).total_seconds()
        os.write(written, json.dumps(line).encode() + b"\n")

    def wrapped(name: str) -> Callable[..., Any]:
        method = getattr(store, name)
        signature = inspect.signature(getattr(store, name))

        def call(self: Store, *given: Any, **named: Any) -> Any:
            if getattr(within, "call", False):
                return method(self, *given, **named)
            bound = signature.bind(self, *given, **named)
            bound.apply_defaults()
            asked = _Asked(bound.arguments)
            number = f"{os.getpid()}.{next(numbers)}"
            steps = [*map(asdict, STEPS[name](asked, None))]
            write(self, call=number, name=name, steps=steps)
            within.call = True
            before = _lost(self)
            try:
                answer = method(self, *given, **named)
            except GoSchedulerError as error:
                if not isinstance(error, StoreError):
                    write(self, call=number, steps=[])
                raise
            finally:
                within.call = False
            busy = {str(each) for each in getattr(answer, "busy", ())}
            done = (each for each in STEPS[name](asked, answer) if each.of not in busy)
            steps = [*map(asdict, done)]
            write(self, call=number, steps=steps, repeated=_lost(self) != before)
            return answer

        return call

    try:
        methods: dict[str, Any] = {each: wrapped(each) for each in STEPS}
        with patch.multiple(store, **methods):
            yield
    finally:
        os.close(written)


def _lost(store: Store) -> int:
    """After how many statements the connection was lost, and they were repeated."""
    retries: Mapping[str, int] = getattr(store, "retries", {})
    return sum(times for code, times in retries.items() if code not in _NOT_DONE)


# Conflicts and locks: what meets them has done nothing.
_NOT_DONE = ("40001", "40P01", "55P03", "overtaken")


class _Asked:
    """The arguments of a call, by their names."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.__dict__.update(arguments)
        self.__dict__.setdefault("claimant", None)


# Checking.


class Row(NamedTuple):
    """An instance, as far as its claims need it.

    Attributes:
        phase: "pending", "claimed", "running" or "ended".
        attempt: How many claims it has had.
        holds: Until when its claim holds at least, in seconds.
        outcome: How it has ended.
        by: The attempt that has ended it.
    """

    phase: str = "pending"
    attempt: int = 0
    holds: float = 0
    outcome: object = None
    by: int = 0


# By how much a claim may hold shorter than its lease: clocks of servers round.
_SLACK = 0.05


def of_instance(row: Row, step: Step) -> Iterator[Row]:
    """What a step may make of an instance; nothing: it cannot have been answered so."""
    held = row.phase in ("claimed", "running")
    current = held and row.attempt == step.attempt
    holds = step.begin + step.lease
    match step.kind:
        case "claim":
            may = row.phase == "pending" or (held and step.end >= row.holds - _SLACK)
            if may and step.attempt in (row.attempt + 1, 0):
                phase = "running" if step.started else "claimed"
                yield Row(phase, row.attempt + 1, holds)
        case "start" if current:
            running = row.phase == "running"
            yield row if running else row._replace(phase="running", holds=holds)
            if step.ok is None and not running:
                # Perhaps it was parked.
                yield row._replace(phase="pending")
        case "park" if current and row.phase == "claimed":
            yield row._replace(phase="pending")
        case "renew" | "hand on" if current:
            yield row._replace(holds=holds)
        case "release" if current:
            yield row._replace(phase="pending")
        case "finish" if current and step.to is None:
            yield row._replace(phase="pending")
        case "finish" if current or (
            step.to == "completed"
            and 1 <= step.attempt <= row.attempt
            and row.outcome in (None, "failed")
        ):
            yield row._replace(phase="ended", outcome=step.to, by=step.attempt)
        case "finish" if (row.outcome, row.by) == (step.to, step.attempt):
            yield row
        case "cancel" if step.to == "cancelled" and row.phase in ("pending", "claimed"):
            yield row._replace(phase="ended", outcome="cancelled")
        case "cancel" if step.to == "requested" and held:
            yield row
        case "cancel" if step.to is None and row.phase == "ended":
            yield row
        case "reopen" if row.outcome == "failed":
            yield Row(attempt=row.attempt)
        case "end" if row.phase != "ended":
            yield row._replace(phase="ended", outcome=step.to)
        case "edit" if row.phase in ("pending", "claimed"):
            yield row._replace(phase="pending")
            yield row._replace(phase="ended", outcome="gone")
        case "delete" if row.phase != "ended":
            yield row._replace(phase="ended", outcome="gone")


def of_definition(row: object, step: Step) -> Iterator[object]:
    """What a step may make of a definition's revision and next fire time."""
    match step.kind:
        case "fire" if row in (None, step.read):
            yield step.to
        case "edit":
            yield step.to
        case "delete":
            yield "deleted"


Rules: TypeAlias = "Callable[[Any, Step], Iterator[Any]]"
# Of these the answer "no" says nothing: another worker has it, or it is deleted.
_MAY_BE_REFUSED = ("hand on", "reopen")


def is_possible(row: object, rules: Rules, steps: Sequence[Step]) -> bool:
    """Whether there is an order of these steps in which all answers are right."""
    steps = sorted(steps, key=lambda each: each.begin)
    needed = [each.ok is not None for each in steps]
    seen = set()
    waiting = [(row, 0, 0.0)]
    while waiting:
        row, done, latest = waiting.pop()
        left = [n for n in range(len(steps)) if not done >> n & 1]
        soonest = min((steps[n].end for n in left if needed[n]), default=None)
        if soonest is None:
            return True
        key = (str(row), done)
        if key in seen:
            continue
        seen.add(key)
        assert len(seen) < _MOST, "too many orders to look at"
        # Last is looked at first: what has an answer before what has none.
        for n in sorted(left, key=lambda n: (needed[n], -n)):
            step = steps[n]
            if step.begin > soonest or step.end < latest:
                continue
            after: Iterable[object] = rules(row, step)
            if step.ok is False:
                would = [*after]
                # An end that is told again may be done, or lost.
                is_known = step.kind == "finish" and would == [row]
                was_right = not would or is_known or step.kind in _MAY_BE_REFUSED
                after = [row] if was_right else []
            now_done = done | 1 << n
            waiting += [(each, now_done, max(latest, step.begin)) for each in after]
    return False


_MOST = 500_000


def check_traces(folder: Path) -> int:
    """Fail if stores have answered what they may not; tell how many steps there were.

    Args:
        folder: Its files ``*.calls`` are read.
    """
    begun: dict[str, Mapping[str, Any]] = {}
    steps: list[Step] = []
    for file in sorted(folder.glob("*.calls")):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["call"] not in begun:
                begun[line["call"]] = line
            else:
                asked = begun[line["call"]]
                span = {"begin": asked["at"], "end": line["at"]}
                told = line["steps"]
                if line.get("repeated"):
                    told = [*asked["steps"], *told]
                steps += [Step(**{**each, **span}) for each in told]
                begun[line["call"]] = {"steps": []}
    for unanswered in begun.values():
        for each in unanswered["steps"]:
            steps.append(Step(**{**each, "begin": unanswered["at"]}))
    broken = [*_broken(steps)]
    assert not broken, "\n\n".join(broken[:3])
    return len(steps)


def _broken(steps: Sequence[Step]) -> Iterator[str]:
    """Of which instance or definition no order of the steps is possible."""
    of: dict[str, list[Step]] = defaultdict(list)
    definitions: dict[str, str] = {}
    for step in steps:
        if step.of is not None:
            of[step.of].append(step)
            if step.definition is not None:
                definitions[step.of] = step.definition
    unknown = [each for each in steps if each.of is None]
    for id, its in of.items():
        if its[0].kind in ("fire", "edit", "delete"):
            possible = is_possible(None, of_definition, its)
        else:
            # An edit may do something to it, or nothing.
            edits = [
                replace(each, ok=None)
                for each in of.get(definitions.get(id, ""), ())
                if each.kind in ("edit", "delete")
            ]
            all_of_it = [*its, *edits]
            possible = is_possible(Row(), of_instance, all_of_it) or (
                bool(unknown)
                and is_possible(Row(), of_instance, [*all_of_it, *unknown])
            )
        if not possible:
            lines = sorted(its, key=lambda each: each.begin)
            yield "\n".join([f"{id}: no order explains", *map(str, lines)])


if __name__ == "__main__":
    from pathlib import Path

    from go_scheduler.cli import main
    from go_scheduler.stores.postgresql.store import PostgreSQLStore

    with recorded(PostgreSQLStore, Path(sys.argv[1])):
        sys.exit(main(sys.argv[2:]))
