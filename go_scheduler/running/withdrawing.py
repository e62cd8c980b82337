"""Withdrawing: what an edit in this process has ended is not called here any more."""

from __future__ import annotations

import os
import threading
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.held import Held, HeldRun
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.stores.base import Store

_STEP = 0.0002
# The way from the last look at a run to its handler takes microseconds.
_MOST_STEPS = 5000


class Kind(Enum):
    """What was done."""

    DELETED = "its definition was deleted"
    PAUSED = "its definition was paused"
    CANCELLED = "it was cancelled"


class Edit(NamedTuple):
    """An edit that the store has taken.

    Attributes:
        kind: What was done.
        ids: To which definitions; of *cancelled*, to which instances.
    """

    kind: Kind
    ids: Set[UUID]

    def meets(self, instance: TaskInstance) -> bool:
        """Whether an instance is not to be called after this."""
        if self.kind is Kind.CANCELLED:
            return instance.id in self.ids
        return instance.definition.id in self.ids


class Watch:
    """What was edited since a claim was sent, for as long as somebody has this."""

    def __init__(self) -> None:
        self.edits: list[Edit] = []


class Withdrawing:
    """Lets go of the runs of a node that an edit has ended and that are not called.

    Taking a run out of what the node holds succeeds for one alone: for this, or for
    whoever calls its handler.

    Args:
        held: The node's runs.
        writer: Takes what becomes of them.
    """

    def __init__(self, held: Held, writer: ResultWriter) -> None:
        self._held = held
        self._writer = writer
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._watches: WeakSet[Watch] = WeakSet()

    def watch(self) -> Watch:
        """Note from now on what is edited; called before a claim is sent."""
        watch = Watch()
        with self._lock:
            self._watches.add(watch)
        return watch

    def withdraw(self, edit: Edit) -> Set[UUID]:
        """Let go of all that an edit has met; answer the ids of these instances.

        What is being called at this moment has been called when this returns.
        """
        if self._process != os.getpid():
            return frozenset()
        # In this order: what a claim brings later is seen in what it watches.
        with self._lock:
            for watch in self._watches:
                watch.edits.append(edit)
        withdrawn = self._drop(self._held.uncalled(), edit)
        for run in self._held.running():
            if not run.begun and edit.meets(run.instance):
                _wait_for_begin(run)
        return {run.instance.id for run in withdrawn}

    def let_in(self, runs: Sequence[HeldRun], watch: Watch) -> Sequence[HeldRun]:
        """Let go of what was edited while it was claimed; answer the others.

        Args:
            runs: What is held by now.
            watch: Of the claim that has brought it.
        """
        for edit in watch.edits:
            self._drop(runs, edit)
            runs = [run for run in runs if self._held.has(run)]
        return runs

    def _drop(self, runs: Iterable[HeldRun], edit: Edit) -> Sequence[HeldRun]:
        met = [run for run in runs if edit.meets(run.instance)]
        withdrawn = [run for run in met if self._held.drop(run)]
        for run in withdrawn:
            if edit.kind is Kind.CANCELLED:
                self._writer.cancel(run)
            else:
                self._writer.withdraw(run, edit.kind.value)
        return withdrawn


def join(store: Store, one: Withdrawing) -> None:
    """Have a node withdraw what is edited in this store, for as long as it lives."""
    with _LOCK:
        _NODES.setdefault(store, WeakSet()).add(one)


def withdraw(store: Store, edit: Edit) -> Set[UUID]:
    """Have all nodes of this process that have a store withdraw what was edited.

    Returns:
        The ids of the instances that were withdrawn.
    """
    with _LOCK:
        nodes = [*_NODES.get(store, ())]
    return {id for each in nodes for id in each.withdraw(edit)}


def _wait_for_begin(run: HeldRun) -> None:
    pause = threading.Event()
    for _ in range(_MOST_STEPS):
        if run.begun:
            return
        pause.wait(_STEP)


_LOCK = threading.RLock()
_NODES: WeakKeyDictionary[Store, WeakSet[Withdrawing]] = WeakKeyDictionary()
