"""The benchmarks run, with tiny numbers, and their pages are made from results."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from benchmarks import page, tables
from benchmarks.__main__ import MORE, NOUNS, experiments, main
from benchmarks.databases import Databases
from benchmarks.drain import experiments as drains
from benchmarks.experiment import P50, RATE, Figure, Role
from benchmarks.results import Contender, Measured, Report
from benchmarks.rounds import Rounds
from benchmarks.sizes import TINY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.experiment import Call, Experiment, Variant

# What is the same on another kind of store, or waits for a lease, is called once.
CALLED = {
    "memory": [each for each in NOUNS if each != "recovery"],
    "sqlite": ["drain", "due_now", "idle"],
    "postgresql": [
        *("drain", "putting_in", "idle", "scale", "large_tables"),
        *(each for each in MORE if each != "redis"),
    ],
}
EVERY = [
    each
    for engine, nouns in CALLED.items()
    for each in experiments(engine, nouns, TINY)
]

ON_REDIS = list(experiments("redis", ["redis"], TINY))


@pytest.fixture(scope="module")
def databases(postgresql_server: str) -> Iterator[Databases]:
    with Databases({"postgresql": postgresql_server}) as made:
        yield made


def called(call: Call, url: str) -> dict[str, float]:
    module, name = call.function.split(":")
    function = getattr(import_module(f"benchmarks.{module}"), name)
    answered: dict[str, float] = function(url, **call.arguments)
    return answered


def run(variant: Variant, databases: Databases) -> dict[str, float]:
    def prepare(url: str) -> None:
        assert variant.prepare is not None
        called(variant.prepare, url)

    make = prepare if variant.prepare else None
    url = databases.fresh(variant.engine, make, [str(variant.prepare)])
    try:
        return called(variant.call, url)
    finally:
        databases.give_back(url)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("experiment", EVERY, ids=lambda each: each.title)
def test_each_function_answers_what_its_table_shows(
    experiment: Experiment, databases: Databases
) -> None:
    all_answer(experiment, databases)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("redis_server")
@pytest.mark.parametrize("experiment", ON_REDIS, ids=lambda each: each.title)
def test_each_function_of_redis_answers_what_its_table_shows(
    experiment: Experiment,
) -> None:
    with Databases({}) as databases:
        all_answer(experiment, databases)


def all_answer(experiment: Experiment, databases: Databases) -> None:
    # The others are not installed with what tests need.
    ours = [each for each in experiment.variants if each.role is not Role.PEER]
    for variant in {each.call.function: each for each in ours}.values():
        answered = run(variant, databases)
        assert answered[experiment.figures[0].name] >= 0, variant.name


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_run_in_processes_of_their_own_is_kept_and_read_again(tmp_path: Path) -> None:
    said: list[str] = []
    experiment = next(drains("sqlite", TINY))
    with Databases({}) as databases:
        rounds = Rounds(
            databases=databases,
            count=1,
            peers=False,
            against=None,
            pythons={},
            say=said.append,
        )
        measured = rounds.measure(experiment)
    report = Report(run={"date": "today"}, measured=(measured,))
    report.write(tmp_path / "run.json")
    assert Report.read(tmp_path / "run.json") == report
    assert [measured.failure(each) for each in measured.contenders] == [None, None]
    assert len(said) == 1
    assert "go_scheduler" in tables.table(measured)


def test_a_ratio_is_the_median_of_those_within_a_round() -> None:
    measured = two(ours=[10, 100, 30], theirs=[10, 50, 60])
    assert measured.ratio(measured.contenders[1], RATE) == 1
    assert not measured.is_ahead(measured.contenders[1], RATE)


@pytest.mark.parametrize("figure", [RATE, P50])
def test_whoever_is_ahead_of_ours_is_listed(figure: Figure) -> None:
    less, more = [1.0, 2.0], [3.0, 4.0]
    ours, theirs = (less, more) if figure.more else (more, less)
    measured = two(ours=ours, theirs=theirs, figure=figure)
    assert "* peer" in tables.losses([measured])
    assert "* peer" not in tables.losses([two(ours=theirs, theirs=ours, figure=figure)])
    assert tables.losses([]) == "No others were measured (--peers)."


def test_what_has_failed_says_why_and_is_no_figure() -> None:
    measured = two(ours=[1], theirs=[1])
    failed = replace(
        measured, rounds=[{"ours": {"rate": 1.0}, "peer": {"failed": "no such module"}}]
    )
    assert "failed: no such module" in tables.table(failed)
    assert tables.best_peer(failed, RATE) is None


def test_only_another_checkout_is_measured_beside_this_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--against", "/nowhere"])
    with pytest.raises(SystemExit):
        main()
    assert "no checkout of this package: /nowhere" in capsys.readouterr().err


def test_the_pages_show_what_was_measured() -> None:
    for path, text in page.made(page.reports()).items():
        assert path.read_text() == text, f"{path}: run python -m benchmarks.page"


def two(*, ours: list[float], theirs: list[float], figure: Figure = RATE) -> Measured:
    contenders = [("ours", Role.OURS), ("peer", Role.PEER)]
    return Measured(
        title="a title",
        noun="drain",
        figures=[figure],
        contenders=[
            Contender(name=name, role=role, settings="") for name, role in contenders
        ],
        rounds=[
            {"ours": {figure.name: one}, "peer": {figure.name: other}}
            for one, other in zip(ours, theirs, strict=True)
        ],
    )
