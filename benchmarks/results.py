"""What was measured: figures of rounds, their medians, and medians of their ratios."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.experiment import Experiment, Figure, Role

if TYPE_CHECKING:
    from pathlib import Path

Round: TypeAlias = Mapping[str, Mapping[str, float | str]]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A variant, as far as tables need it."""

    name: str
    role: Role
    settings: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All rounds of one experiment.

    Attributes:
        title: Its title.
        noun: What it is about.
        figures: What is shown of it.
        contenders: Its variants, ours first.
        rounds: Of each round what each variant answered, or why it has ``failed``.
    """

    title: str
    noun: str
    figures: Sequence[Figure]
    contenders: Sequence[Contender]
    rounds: Sequence[Round]

    @classmethod
    def of(cls, experiment: Experiment, rounds: Sequence[Round]) -> Measured:
        """What came of an experiment."""
        return cls(
            title=experiment.title,
            noun=experiment.noun,
            figures=tuple(experiment.figures),
            contenders=tuple(
                Contender(name=each.name, role=each.role, settings=each.settings)
                for each in experiment.variants
            ),
            rounds=tuple(rounds),
        )

    def values(self, contender: Contender, figure: Figure) -> Sequence[float]:
        """What was measured, round by round."""
        return [
            float(each[contender.name][figure.name])
            for each in self.rounds
            if figure.name in each[contender.name]
        ]

    def pairs(
        self, one: Contender, other: Contender, figure: Figure
    ) -> Sequence[tuple[float, float]]:
        """What both did, of each round in which both have the figure."""
        return [
            (float(each[one.name][figure.name]), float(each[other.name][figure.name]))
            for each in self.rounds
            if figure.name in each[one.name] and figure.name in each[other.name]
        ]

    def ratio(self, contender: Contender, figure: Figure) -> float | None:
        """The median of ours divided by it, within each round; None: there is none."""
        pairs = self.pairs(self.contenders[0], contender, figure)
        ratios = [ours / theirs for ours, theirs in pairs if theirs]
        return statistics.median(ratios) if ratios else None

    def failure(self, contender: Contender) -> str | None:
        """Why there is nothing of it, if there is not."""
        answers = [each[contender.name] for each in self.rounds]
        if all("failed" in each for each in answers):
            return str(answers[0]["failed"])
        return None

    def is_ahead(self, contender: Contender, figure: Figure) -> bool:
        """Whether it does better than ours."""
        ratio = self.ratio(contender, figure)
        return ratio is not None and (ratio < 1 if figure.more else ratio > 1)


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of the command.

    Attributes:
        run: When, where and by which command.
        measured: What came of it.
    """

    run: Mapping[str, str]
    measured: Sequence[Measured]

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Report:
        """What was kept."""
        kept = json.loads(path.read_text())
        return cls(run=kept["run"], measured=tuple(map(_measured, kept["measured"])))


def _measured(kept: Mapping[str, Any]) -> Measured:
    return Measured(
        title=kept["title"],
        noun=kept["noun"],
        figures=tuple(Figure(**each) for each in kept["figures"]),
        contenders=tuple(
            Contender(**each | {"role": Role(each["role"])})
            for each in kept["contenders"]
        ),
        rounds=tuple(kept["rounds"]),
    )
