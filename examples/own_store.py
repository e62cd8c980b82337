"""A store of your own: a ``MemoryStore`` that keeps itself in a JSON file.

Every call locks the file, reads it if another process has written it, does what
``MemoryStore`` does, and, if that changed anything, replaces the file by a new one. So
a call happens as a whole or not at all, whatever dies meanwhile, and processes of one
machine can share the file. It writes everything each time: use it for some hundreds of
definitions. ``StoreSuite`` says that it keeps the promises.

It prints::

    first: scheduled 2, ran 0
    second: water the plants
    second: feed the cat
    third: 2 completed, 0 pending
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from go_scheduler import (
    CatchUp,
    ExecuteOnceTrigger,
    MemoryStore,
    Overlap,
    RetryPolicy,
    RunEnd,
    Scheduler,
    Store,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
    TaskInstance,
    TaskRun,
    Trigger,
)
from go_scheduler.stores import (
    Announcement,
    Filter,
    NodeContact,
    Outcome,
    SetVersion,
    Skipped,
    Snapshot,
    State,
    Tombstone,
)
from go_scheduler.triggers import dump_trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")


def in_file(
    method: Callable[Concatenate[FileStore, P], T],
) -> Callable[Concatenate[FileStore, P], T]:
    """The same method as one transaction on the file."""

    @wraps(method)
    def call(self: FileStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with self._guard, self._lock_path.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._read()
                try:
                    answer = method(self, *args, **kwargs)
                    self._write()
                except BaseException:
                    self._seen = None  # the next call reads the file anew
                    raise
                return answer
        except OSError as error:
            raise StoreUnavailableError(f"{self.path}: {error}") from error

    return call


class FileStore(MemoryStore):
    """Keeps everything in a JSON file.

    Args:
        path: The file; its folder must exist.
        clock: Used instead of the system's clock, for tests.
    """

    def __init__(self, path: str | Path, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.path = Path(path)
        self._lock_path = self.path.with_name(self.path.name + ".lock")
        self._guard = threading.Lock()
        self._seen: object = None

    def _read(self) -> None:
        seen = self._stat()
        if self._seen is not None and seen == self._seen:
            return
        text = self.path.read_text() if seen else ""
        try:
            self.restore(load_snapshot(text))
        except (ValueError, LookupError, TypeError) as error:
            raise StoreError(f"{self.path} does not hold a store: {error!r}") from error
        self._seen, self._text = seen, text or dump_snapshot(Snapshot())

    def _write(self) -> None:
        text = dump_snapshot(self.snapshot())
        if text == self._text:
            return
        new = self.path.with_name(self.path.name + ".new")
        with new.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        self._seen, self._text = self._stat(), text

    def _stat(self) -> tuple[int, ...]:
        """What differs once the file has been replaced; empty if there is none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size

    put_definitions = in_file(MemoryStore.put_definitions)
    declare_definitions = in_file(MemoryStore.declare_definitions)
    select = in_file(MemoryStore.select)
    select_definitions = in_file(MemoryStore.select_definitions)
    delete_definitions = in_file(MemoryStore.delete_definitions)
    list_tombstones = in_file(MemoryStore.list_tombstones)
    pause_definitions = in_file(MemoryStore.pause_definitions)
    resume_definitions = in_file(MemoryStore.resume_definitions)
    due_definitions = in_file(MemoryStore.due_definitions)
    fire_definitions = in_file(MemoryStore.fire_definitions)
    add_instances = in_file(MemoryStore.add_instances)
    backfill_instances = in_file(MemoryStore.backfill_instances)
    claim_instances = in_file(MemoryStore.claim_instances)
    list_claimed = in_file(MemoryStore.list_claimed)
    start_instances = in_file(MemoryStore.start_instances)
    renew_claims = in_file(MemoryStore.renew_claims)
    finish_instances = in_file(MemoryStore.finish_instances)
    release_instances = in_file(MemoryStore.release_instances)
    cancel_instances = in_file(MemoryStore.cancel_instances)
    review_parked = in_file(MemoryStore.review_parked)
    slot_holder = in_file(MemoryStore.slot_holder)
    delete_finished = in_file(MemoryStore.delete_finished)
    note_contact = in_file(MemoryStore.note_contact)
    list_contacts = in_file(MemoryStore.list_contacts)
    keep_setting = in_file(MemoryStore.keep_setting)
    list_due_queues = in_file(MemoryStore.list_due_queues)
    list_runs = in_file(MemoryStore.list_runs)
    reopen_instances = in_file(MemoryStore.reopen_instances)
    count = Store.count  # which reads by select
    note_stats, list_stats = Store.note_stats, Store.list_stats  # which keep nothing


def dump_snapshot(snapshot: Snapshot) -> str:
    """All rows; an instance names its definition, unless that has been deleted."""
    kept = dump(snapshot)
    for row, each in zip(kept["instances"], snapshot.instances, strict=True):
        row["definition"] = str(each.definition.id)
    return json.dumps(kept)


def load_snapshot(text: str) -> Snapshot:
    """The rows of a file; none if it is empty."""
    if not text:
        return Snapshot()
    kept = json.loads(text)
    definitions = [load(TaskDefinition, each) for each in kept["definitions"]]
    by_id = {str(each.id): each for each in definitions}
    for row in kept["instances"]:
        row["definition"] = by_id[row["definition"]]
    rows: dict[str, Any] = {
        name: [load(kind, each) for each in kept[name]] for name, kind in KINDS.items()
    }
    rows["slots"] = {name: UUID(each) for name, each in kept["slots"].items()}
    rows["behind"] = {UUID(each): UUID(kept["behind"][each]) for each in kept["behind"]}
    rows |= {name: [*map(UUID, kept[name])] for name in ("handed_on", "accepted")}
    return Snapshot(**{**kept, **rows, "definitions": definitions})


def dump(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Trigger):
        return dump_trigger(value)
    if is_dataclass(value):
        return {each.name: dump(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, list | tuple):
        return [dump(each) for each in value]
    if type(value) is dict:  # metadata is JSON already, and read-only
        return {str(name): dump(each) for name, each in value.items()}
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, UUID) else value


def load(kind: type[T], values: Any) -> T:
    """The dataclass of this type that was dumped, if it is not loaded already."""
    if isinstance(values, kind):
        return values
    types = {each.name: str(each.type) for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: load_field(types[name], values[name]) for name in values})


def load_field(type_name: str, value: Any) -> Any:
    reader = READERS.get(type_name.removesuffix(" | None"))
    return value if value is None or reader is None else reader(value)


KINDS: dict[str, type] = {
    "instances": TaskInstance,
    "orphans": TaskInstance,
    "runs": TaskRun,
    "contacts": NodeContact,
    "tombstones": Tombstone,
    "sets": SetVersion,
}
READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "timedelta": lambda value: timedelta(microseconds=value),
    "UUID": UUID,
    "tuple[str, ...]": tuple,
    "Outcome": Outcome,
    "Overlap": Overlap,
    "RunEnd": RunEnd,
    "Trigger": lambda value: load_trigger(*value),
    # A jitter: a time is kept as a whole number, a part of the delay with a point.
    "float | timedelta": lambda value: (
        value if isinstance(value, float) else timedelta(microseconds=value)
    ),
}
for each in (Announcement, CatchUp, RetryPolicy, Skipped, TaskDefinition):
    READERS[each.__name__] = partial(load, each)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tasks.json"
        # A process that schedules, and ends before anything is due.
        first = Scheduler(None, FileStore(path))
        soon = datetime.now(UTC) + timedelta(milliseconds=200)
        for number, text in enumerate(["water the plants", "feed the cat"]):
            trigger = ExecuteOnceTrigger(soon + number * timedelta(milliseconds=200))
            first.schedule(TaskDefinition(trigger=trigger, metadata={"text": text}))
        print(f"first: scheduled 2, ran {first.counts()[State.COMPLETED]}", flush=True)

        # Another one, later, that runs what the first one left.
        def handler(instance: TaskInstance) -> None:
            print("second:", instance.metadata["text"], flush=True)
            if instance.metadata["text"] == "feed the cat":
                second.stop()

        second = Scheduler(handler, FileStore(path), max_workers=1)
        second.run()
        # And one that only looks.
        [counts] = FileStore(path).count([Filter()])
        done, left = counts[State.COMPLETED], counts[State.PENDING]
        print(f"third: {done} completed, {left} pending")


if __name__ == "__main__":
    main()
