"""Rounds: the variants of an experiment, one after the other, again and again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.databases import Databases
from benchmarks.experiment import Role
from benchmarks.processes import HERE, LIMIT_OF_FILLING, Failed, answer
from benchmarks.results import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.experiment import Call, Experiment, Variant
    from benchmarks.results import Round


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Has variants measured, each in a process of its own, on a database of its own.

    Attributes:
        databases: Where those come from.
        count: How many rounds, at most.
        peers: Whether others are measured as well.
        against: Another checkout, whose package is measured beside this one's.
        pythons: The interpreters of what cannot be measured by this one.
        say: Told how far it has come.
    """

    databases: Databases
    count: int
    peers: bool
    against: Path | None
    pythons: Mapping[str, str]
    say: Callable[[str], None]

    def measure(self, experiment: Experiment) -> Measured:
        """All rounds of one experiment."""
        variants = list(self._wanted(experiment))
        rounds: list[Round] = []
        for number in range(min(self.count, experiment.most_rounds)):
            rounds.append({each.name: self._run(each) for each in variants})
            self.say(f"  round {number + 1}: {_in_short(experiment, rounds[-1])}")
        return Measured.of(replace(experiment, variants=variants), rounds)

    def _wanted(self, experiment: Experiment) -> Iterator[Variant]:
        for each in experiment.variants:
            if each.role is Role.PEER and not self.peers:
                continue
            if each.python and each.python not in self.pythons:
                continue
            yield each
            if each.role is Role.OURS and self.against is not None:
                yield replace(each, name=f"{each.name}, before", role=Role.BEFORE)

    def _run(self, variant: Variant) -> Mapping[str, float | str]:
        try:
            url = self._database(variant)
        except Failed as error:
            return {"failed": f"preparing: {error}"}
        tree = self._tree(variant)
        python = self.pythons.get(variant.python, sys.executable)
        try:
            return answer(variant.call, url, tree=tree, python=python)
        except Failed as error:
            return {"failed": str(error)}
        finally:
            self.databases.give_back(url)

    def _database(self, variant: Variant) -> str:
        call, tree = variant.prepare, self._tree(variant)
        if call is None:
            return self.databases.fresh(variant.engine, None, [tree])
        key = (tree, call.function, *call.arguments.items())
        make = self.databases.kept if variant.reused else self.databases.fresh
        return make(variant.engine, partial(_prepare, call, tree), key)

    def _tree(self, variant: Variant) -> Path | None:
        if variant.role is Role.BEFORE:
            return self.against
        return None if variant.role is Role.PEER else HERE


def _prepare(call: Call, tree: Path | None, url: str) -> None:
    answer(call, url, tree=tree or HERE, limit=LIMIT_OF_FILLING)


def _in_short(experiment: Experiment, answers: Round) -> str:
    figure = experiment.figures[0].name
    return ", ".join(
        f"{name} {answered[figure]:,.4g}" if figure in answered else f"{name} failed"
        for name, answered in answers.items()
    )
