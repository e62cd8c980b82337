"""One node as a program: it runs until its standard input ends.

It writes a line for whatever it does: to standard output, for whoever waits for it, and
to a file of its own, which is what it is judged by. ``Process`` in ``process`` starts
it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import TaskDefinition
from go_scheduler.run import HandedOn
from go_scheduler.scheduler import Scheduler
from go_scheduler.triggers import IntervalTrigger
from tests.made import make_store
from tests.traces import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant, Fired, Firing


@dataclass(frozen=True, kw_only=True)
class Role:
    """What a node does; durations are in seconds."""

    lease: float = 20
    schedule_window: float = 1
    runner_window: float = 1
    queues: Sequence[str] = ("default",)
    runs: bool = True
    """Whether it runs instances, or only creates them."""
    hangs: bool = False
    """Whether its handlers wait until they are told to go, and then fail."""
    declares: Sequence[str] = ()
    """The names of what it declares at its start."""
    version: int | None = None
    """The version of what it declares."""
    takes: float = 0
    """How long its handlers take."""
    guards: str | None = None
    """A folder with a file for whatever runs and excludes others."""
    keeps: float | None = None
    """For how long it keeps what its handlers hand on; None: they do it themselves."""


@dataclass
class Node:
    """What happens in one process."""

    role: Role
    file: int
    go: threading.Event = field(default_factory=threading.Event)

    def tell(self, *words: object) -> None:
        line = " ".join(map(str, words)).encode() + b"\n"
        os.write(self.file, line)
        os.write(sys.stdout.fileno(), line)

    def handle(self, instance: TaskInstance) -> HandedOn | None:
        self.tell("called", instance.id, instance.attempt)
        if self.role.hangs:
            self.go.wait()
            raise RuntimeError("late")
        if self.role.guards is not None:
            self.exclude(instance, Path(self.role.guards))
        if self.role.keeps is None:
            return None
        return HandedOn(expire_after=timedelta(seconds=self.role.keeps))

    def exclude(self, instance: TaskInstance, folder: Path) -> None:
        """Take some time, and tell if anything runs that should not meanwhile."""
        of = instance.definition
        guard = folder / f"{of.lock or of.id}"
        try:
            with guard.open("x"):
                self.go.wait(self.role.takes)
            guard.unlink()
        except FileExistsError:
            self.tell("collided", instance.id)

    def report(self, store: Store) -> None:
        """Tell how many instances are created, and whenever it has claimed."""
        fire, claim = store.fire_definitions, store.claim_instances

        def fire_definitions(firings: Sequence[Firing], **options: Any) -> Fired:
            won = fire(firings, **options)
            created = [
                len(e.fire_times) for e in firings if e.definition.id in won.done
            ]
            self.tell("created", sum(created))
            return won

        def claim_instances(
            claimant: Claimant, **options: Any
        ) -> Sequence[TaskInstance]:
            claimed = claim(claimant, **options)
            self.tell("claimed", len(claimed))
            return claimed

        store.fire_definitions = fire_definitions  # type: ignore[method-assign]
        store.claim_instances = claim_instances  # type: ignore[method-assign]

    def run(self, store: Store) -> None:
        role = self.role
        self.report(store)
        scheduler = Scheduler(
            self.handle if role.runs else None,
            store,
            lease=timedelta(seconds=role.lease),
            schedule_window=timedelta(seconds=role.schedule_window),
            runner_window=timedelta(seconds=role.runner_window),
            queues=role.queues,
        )
        with started(scheduler):
            if role.declares:
                definitions = [
                    TaskDefinition(
                        id=TaskDefinition.id_for(each),
                        name=each,
                        trigger=IntervalTrigger(hours=1),
                    )
                    for each in role.declares
                ]
                scheduler.declare(definitions, owner="app", version=role.version)
            self.tell("ready")
            for line in sys.stdin:
                assert line == "go\n"
                self.go.set()
        store.close()


def main() -> None:
    """Be a node on the store, with the file and in the role that are given."""
    url, path, role = sys.argv[1:]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    store, calls = make_store(url), Path(path).with_suffix(".calls")
    with recorded(type(store), calls):
        Node(Role(**json.loads(role)), os.open(Path(path), flags)).run(store)


@contextmanager
def started(scheduler: Scheduler) -> Iterator[None]:
    """Let it run meanwhile, however long others write to its file at first."""
    while True:
        # A start waits for others as long as a call may.
        with suppress(StoreUnavailableError):
            scheduler.start()
            break
    try:
        yield
    finally:
        scheduler.stop()


if __name__ == "__main__":
    main()
