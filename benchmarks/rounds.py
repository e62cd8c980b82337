"""Rounds: the variants of an experiment, one after the other, again and again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import tables
from benchmarks.databases import COPIED, Databases
from benchmarks.experiment import Call, Role
from benchmarks.processes import HERE, LIMIT_OF_FILLING, Failed, ForkServers
from benchmarks.results import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.experiment import Experiment, Variant
    from benchmarks.results import Round


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Has variants measured, each in a process of its own, on a database of its own.

    Attributes:
        databases: Where those come from.
        servers: Where the processes come from.
        count: How many rounds, at most.
        peers: Whether others are measured as well.
        against: Another checkout, whose package is measured beside this one's; others
            and floors are not, unless peers are.
        pythons: The interpreters of what cannot be measured by this one.
        say: Told how far it has come.
    """

    databases: Databases
    servers: ForkServers
    count: int
    peers: bool
    against: Path | None
    pythons: Mapping[str, str]
    say: Callable[[str], None]

    def measure(
        self, experiments: Sequence[Experiment]
    ) -> Iterator[Sequence[Measured]]:
        """Each round of all experiments, and then the next round.

        Yields:
            All that has been measured, each time that there is more of it.
        """
        wanted = [
            replace(each, variants=list(self._wanted(each))) for each in experiments
        ]
        rounds: list[list[Round]] = [[] for _ in wanted]
        for number in range(self.count):
            for experiment, done in zip(wanted, rounds, strict=True):
                if number < experiment.most_rounds:
                    done.append(self._round(experiment, number))
                    short = _in_short(experiment, done[-1])
                    self.say(f"{number + 1}/{self.count} {experiment.title}: {short}")
                    yield [
                        Measured.of(*each)
                        for each in zip(wanted, rounds, strict=True)
                        if each[1]
                    ]

    def _wanted(self, experiment: Experiment) -> Iterator[Variant]:
        alone = self.against is not None and not self.peers
        for each in experiment.variants:
            if each.role is Role.PEER and not self.peers:
                continue
            if each.role is Role.FLOOR and alone:
                continue
            if each.python and each.python not in self.pythons:
                continue
            yield each
            if each.role is Role.OURS and self.against is not None:
                yield replace(each, name=f"{each.name}, before", role=Role.BEFORE)

    def _round(self, experiment: Experiment, number: int) -> Round:
        # Forward and backward by turns: what a machine gets slower by, or faster, from
        # one variant to the next, no variant has always.
        turns = experiment.variants[:: 1 if number % 2 == 0 else -1]
        answers = {each.name: self._run(each) for each in turns}
        return {each.name: answers[each.name] for each in experiment.variants}

    def _run(self, variant: Variant) -> Mapping[str, float | str]:
        try:
            url = self._database(variant)
        except Failed as error:
            return {"failed": f"preparing: {error}"}
        tree = self._tree(variant)
        python = self.pythons.get(variant.python, sys.executable)
        try:
            return self.servers.answer(variant.call, url, tree=tree, python=python)
        except Failed as error:
            return {"failed": str(error)}
        finally:
            self.databases.give_back(url)

    def _database(self, variant: Variant) -> str:
        call, tree = variant.prepare, self._tree(variant)
        if call is None and tree is not None and variant.engine in COPIED:
            # To make the tables takes longer than much of what is measured.
            call = Call("seeds:due", {"instances": 0})
        if call is None:
            return self.databases.fresh(variant.engine, None, [tree])
        key = (tree, call.function, *call.arguments.items())
        make = self.databases.kept if variant.reused else self.databases.fresh
        return make(variant.engine, partial(self._prepare, call, tree), key)

    def _prepare(self, call: Call, tree: Path | None, url: str) -> None:
        self.servers.answer(call, url, tree=tree or HERE, limit=LIMIT_OF_FILLING)

    def _tree(self, variant: Variant) -> Path | None:
        if variant.role is Role.BEFORE:
            return self.against
        return None if variant.role is Role.PEER else HERE


def _in_short(experiment: Experiment, answers: Round) -> str:
    figure = experiment.figures[0].name
    return ", ".join(
        f"{name} {tables.number(float(answered[figure]))}"
        if figure in answered
        else f"{name} failed"
        for name, answered in answers.items()
    )
