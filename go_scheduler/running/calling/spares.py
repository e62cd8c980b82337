"""Spares: workers that take the place of those whose handler hangs, up to a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun

_LEAST_EACH = 3
_SHARE = 8


class Spares:
    """How many handlers may hang on a node without costing it a worker.

    Args:
        held: The node's runs.
        most: The most of them.
    """

    def __init__(self, held: Held, *, most: int) -> None:
        self._held = held
        self._most = most
        # So many of one definition, and no further run of it begins here.
        self._enough = max(1, min(max(_LEAST_EACH, most // _SHARE), most - 1))
        # Runs that were begun by then may need more, but must leave as many to others.
        self._most_of_one = max(self._enough, most - self._enough)

    @property
    def used_up(self) -> bool:
        """Whether there is none left."""
        return len(self._held.apart()) >= self._most

    @property
    def hanging(self) -> Collection[HeldRun]:
        """The runs that are presumed hung."""
        return self._held.hung()

    @property
    def unreplaced(self) -> Sequence[HeldRun]:
        """Those of them that still keep a worker."""
        hung, apart = self._held.hung(), self._held.apart()
        return [run for run in hung if run not in apart]

    def take(self, run: HeldRun) -> bool:
        """Let another worker take the place of a run that hangs; false: none may."""
        same = [each for each in self._held.apart() if _are_of_one(each, run.instance)]
        if self.used_up or len(same) >= self._most_of_one:
            return False
        return self._held.set_apart(run)

    def refusal(self, instance: TaskInstance) -> str | None:
        """Why an instance is left to other nodes, if it is."""
        # All together first: this is asked of every instance.
        if self._held.hanging < self._enough:
            return None
        same = sum(_are_of_one(run, instance) for run in self._held.hung())
        if same < self._enough:
            return None
        definition = instance.definition
        return f"{self._enough} runs of {definition.name or definition.id} hang here"


def _are_of_one(run: HeldRun, instance: TaskInstance) -> bool:
    return run.instance.definition.id == instance.definition.id
