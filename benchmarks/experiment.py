"""What is measured: experiments, each of variants that are run in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a variant is to the first of its experiment, which is ours."""

    OURS = "ours"
    BEFORE = "before"
    FLOOR = "floor"
    PEER = "peer"


@dataclass(frozen=True)
class Call:
    """A function that a process of its own calls with the URL of a database.

    Attributes:
        function: Its module in this package and its name, as in ``drain:drain``.
        arguments: Those by keyword.
    """

    function: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to do what is measured.

    Attributes:
        name: What the tables call it.
        role: What it is to ours.
        call: Answers figures, each by its name.
        engine: The kind of database it is given; empty: none.
        prepare: Fills a database, of which each run is given a copy.
        reused: Whether all runs have that database itself, and no copy.
        settings: How it was set up, where that is not its default.
        python: The name of the interpreter it needs; empty: this one.
    """

    name: str
    role: Role
    call: Call
    engine: str = ""
    prepare: Call | None = None
    reused: bool = False
    settings: str = ""
    python: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One of the numbers that a variant answers.

    Attributes:
        name: By which the variant answers it.
        text: What it is, for a table.
        unit: Of what.
        more: Whether more of it is better.
    """

    name: str
    text: str
    unit: str
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Variants that do the same, ours first.

    Attributes:
        title: What they do, and with how much.
        noun: The module that has it, by which it is chosen.
        figures: What of their answers is shown.
        variants: Run one after the other, and then again.
        most_rounds: No more rounds than so many, for those that take long.
    """

    title: str
    noun: str
    figures: Sequence[Figure]
    variants: Sequence[Variant]
    most_rounds: int = 1_000


def ours(
    call: Call,
    engine: str,
    *,
    name: str = "go_scheduler",
    prepare: Call | None = None,
    reused: bool = False,
    settings: str = "",
) -> Variant:
    """What is measured, with its default settings."""
    return Variant(
        name=name,
        role=Role.OURS,
        call=call,
        engine=engine,
        prepare=prepare,
        reused=reused,
        settings=settings,
    )


def floor(
    name: str,
    call: Call,
    engine: str = "",
    *,
    prepare: Call | None = None,
    settings: str = "",
) -> Variant:
    """What nobody can do without, and nothing else."""
    return Variant(
        name=name,
        role=Role.FLOOR,
        call=call,
        engine=engine,
        prepare=prepare,
        settings=settings,
    )


def peer(
    name: str, call: Call, engine: str = "", *, settings: str, python: str = ""
) -> Variant:
    """What people would use instead, with the best settings found."""
    return Variant(
        name=name,
        role=Role.PEER,
        call=call,
        engine=engine,
        settings=settings,
        python=python,
    )


RATE = Figure(name="rate", text="rate", unit="a second", more=True)
P50 = Figure(name="p50", text="p50", unit="ms")
P99 = Figure(name="p99", text="p99", unit="ms")
MOST = Figure(name="most", text="most", unit="ms")
EARLY = Figure(name="early", text="early", unit="")
