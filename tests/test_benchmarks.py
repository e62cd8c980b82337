"""The benchmarks run, with tiny numbers, and their pages are made from results."""

from __future__ import annotations

import ast
import io
import shutil
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from benchmarks import page, tables
from benchmarks.__main__ import COMPARED, MORE, NOUNS, experiments, main
from benchmarks.comparison import comparison
from benchmarks.databases import Databases
from benchmarks.drain import experiments as drains
from benchmarks.experiment import P50, RATE, Call, Figure, Role
from benchmarks.processes import HERE, ForkServers
from benchmarks.results import Contender, Measured, Report
from benchmarks.rounds import Rounds
from benchmarks.sizes import TINY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.experiment import Experiment, Variant

# What is the same on another kind of store, or waits for a lease, is called once.
CALLED = {
    "memory": [each for each in NOUNS if each != "recovery"],
    "sqlite": ["drain", "due_now", "idle"],
    "postgresql": [
        *("drain", "putting_in", "idle", "scale", "large_tables"),
        *MORE,
    ],
}
EVERY = [
    each
    for engine, nouns in CALLED.items()
    for each in experiments(engine, nouns, TINY)
]

ON_REDIS = list(experiments("redis", COMPARED, TINY))


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("experiment", EVERY, ids=lambda each: each.title)
def test_each_function_answers_what_its_table_shows(
    experiment: Experiment, databases: Databases
) -> None:
    all_answer(experiment, databases)


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


@pytest.mark.exhaustive
def test_a_run_in_processes_of_their_own_is_kept_and_read_again(tmp_path: Path) -> None:
    said: list[str] = []
    experiment = next(drains("sqlite", TINY))
    with Databases({}) as databases, ForkServers() as servers:
        rounds = Rounds(
            databases=databases,
            servers=servers,
            count=1,
            peers=False,
            against=None,
            pythons={},
            say=said.append,
        )
        [[measured]] = rounds.measure([experiment])
    report = Report(run={"date": "today"}, measured=(measured,))
    report.write(tmp_path / "run.json")
    assert Report.read(tmp_path / "run.json") == report
    assert [measured.failure(each) for each in measured.contenders] == [None, None]
    assert len(said) == 1
    assert "go_scheduler" in tables.table(measured)


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
    with pytest.raises(SystemExit):
        call_main(monkeypatch, "--against", "/nowhere")
    assert "no checkout of this package: /nowhere" in capsys.readouterr().err


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Another checkout with the same package."""
    shutil.copytree(HERE / "go_scheduler", tmp_path / "go_scheduler")
    return tmp_path


def call_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Run the command with tiny sizes."""
    monkeypatch.setattr("benchmarks.__main__.QUICK", TINY)
    monkeypatch.setattr("sys.argv", ["benchmarks", "--quick", *arguments])
    main()


@pytest.mark.slow
def test_one_command_compares_two_checkouts(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--store", "sqlite", "--rounds", "1"]
    call_main(monkeypatch, "--against", str(copy), *arguments)
    said = capsys.readouterr().out
    compared = rows(said)
    for each in experiments("sqlite", COMPARED, TINY):
        first = f"{each.title}: {tables.head(each.figures[0])}"
        assert "×" in compared[first][2], first
    assert "failed" not in said
    assert "Where others are ahead" not in said


@pytest.mark.slow
def test_each_checkout_is_measured_by_its_own_package(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "go_scheduler/__init__.py").write_text("raise ImportError('of the copy')")
    arguments = ["--only", "drain", "--store", "memory", "--rounds", "1"]
    call_main(monkeypatch, "--against", str(copy), *arguments)
    said = capsys.readouterr().out
    assert "go_scheduler, before: failed in 1 of 1 rounds: ImportError: of" in said
    assert "go_scheduler: failed" not in said


@pytest.mark.slow
def test_an_interrupted_comparison_prints_what_it_has(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("2/9 "):
                raise KeyboardInterrupt
            return super().write(text)

    monkeypatch.setattr("sys.stdout", said := Interrupted())
    arguments = ["--only", "drain", "--store", "memory"]
    call_main(monkeypatch, "--against", str(copy), *arguments)
    assert "Interrupted. So far:" in said.getvalue()
    [rate, _] = rows(said.getvalue()).values()
    assert rate[3] == rate[4], "one round has one ratio"


@pytest.mark.parametrize("figure", [RATE, P50])
def test_what_is_worse_by_more_than_three_percent_is_listed(figure: Figure) -> None:
    def is_listed(percent: float) -> bool:
        ratio = 1 - percent / 100 if figure.more else 1 + percent / 100
        said = compared([100] * 9, [100 * ratio] * 9, figure=figure)
        return "* a title:" in said

    assert is_listed(4)
    assert not is_listed(2)
    assert not is_listed(-10)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1.2], "worse"),
        ([1.3, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 0.8], "better"),
        ([0.7, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 1.2, 1.2], "within the spread"),
        ([0.9, 0.9, 0.9, 0.9, 0.9, 0.9], "worse"),
        ([0.9, 0.9, 0.9, 0.9, 0.9], "perhaps worse"),
        ([0.9, 0.9, 0.9, 0.9, 1.2], "within the spread"),
    ],
)
def test_a_difference_is_told_from_chance(ratios: list[float], verdict: str) -> None:
    said = compared([1] * len(ratios), ratios)
    assert rows(said)["a title: rate, a second"][-1] == verdict


def test_the_spread_of_the_ratios_is_shown() -> None:
    ratios = [0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.2, 1.3, 1.5]
    [cells] = rows(compared([10] * 9, [10 * each for each in ratios])).values()
    assert cells[:5] == ["10", "10", "1 ×", "0.8 to 1.3", "0.7 to 1.5"]


def test_what_was_zero_before_and_has_failed_is_listed() -> None:
    early = Figure(name="early", text="early", unit="")
    assert "* a title: early: inf ×" in compared([0] * 9, [1] * 9, figure=early)
    assert not rows(compared([0] * 9, [0] * 9, figure=early))
    failed = replace(two(ours=[1], theirs=[1]), rounds=[{"ours": {"failed": "why"}}])
    failed = replace(failed, contenders=failed.contenders[:1])
    assert "* a title, ours: failed in 1 of 1 rounds: why" in comparison([failed])


def compared(
    before: Sequence[float], after: Sequence[float], *, figure: Figure = RATE
) -> str:
    """What a comparison says of one figure in some rounds."""
    measured = two(ours=list(after), theirs=list(before), figure=figure)
    ours, theirs = measured.contenders
    theirs = replace(theirs, role=Role.BEFORE)
    return comparison([replace(measured, contenders=[ours, theirs])])


def rows(said: str) -> dict[str, list[str]]:
    """The rows of the table in what was said, each by its first cell."""
    lines = [each for each in said.splitlines() if each.startswith("| ")]
    cells = [[cell.strip() for cell in each.split("|")[1:-1]] for each in lines[2:]]
    return {first: others for first, *others in cells}


def test_the_benchmarks_use_only_what_the_reference_has() -> None:
    reference = (HERE / "docs/reference.md").read_text()
    for path in (HERE / "benchmarks").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for each in node.names:
                    name = f"{node.module}.{each.name}"
                    if name.startswith("go_scheduler."):
                        assert f"::: {name}\n" in reference, f"{path}: {name}"


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
