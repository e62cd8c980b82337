"""The commands `simulate` and `plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.shell import Shell

NOW = "2030-03-29T00:00:00Z"
FROM = ("--start", NOW)
MODULE = """
from datetime import timedelta
from go_scheduler import CronTrigger, HandlerRegistry, IntervalTrigger, TaskDefinition

def task(name, **given):
    trigger = given.pop("trigger", IntervalTrigger(timedelta(hours=1)))
    id = TaskDefinition.id_for(name)
    return TaskDefinition(id=id, name=name, trigger=trigger, **given)

first = [task("a"), task("b", metadata={"n": 1})]
def second():
    return [
        task("a", trigger=CronTrigger("0 9 * * *")),
        task("c", overlap="skip") if False else task("c"),
        task("b", metadata={"n": 2}, expire_after=timedelta(minutes=1)),
    ]
registry = HandlerRegistry()
@registry.task("report", CronTrigger("30 2 * * *", "Europe/Berlin"))
def report(): pass
none = []
odd = [1]
def failing(): raise RuntimeError("no settings")
"""


@pytest.fixture
def declaring(importable: Callable[[str], str]) -> str:
    return importable(MODULE)


def test_stored_definitions_are_simulated(shell: Shell) -> None:
    shell("add", "report", "--cron", "0 9 * * *")
    shell("add", "sweep", "--every", "1h", "--queue", "slow")
    printed = shell("simulate", *FROM, "--span", "1d")
    assert "25 fire times from 2030-03-29 00:00:00Z to 2030-03-30 00:00:00Z" in printed
    assert "the busiest minute is" in printed
    assert "2m" in shell("simulate", *FROM, "--duration", "2m")
    [sweep, all] = shell.json("simulate", *FROM, "--span", "1d", "--queue", "slow")
    assert (sweep["name"], sweep["fires"], all["fires"]) == ("sweep", 24, 24)
    assert len(all["minutes"]) == 24


def test_what_is_completed_is_left_out(shell: Shell, tmp_path: Path) -> None:
    shell("add", "report", "--every", "1h")
    shell("add", "paused", "--every", "1h", "--paused")
    shell("types", "put", "send")
    job = tmp_path / "job"
    job.write_text('{"type": "send", "priority": 3}')
    shell("import", str(job))
    *found, _ = shell.json("simulate", *FROM, "--span", "1d")
    assert sorted(each["name"] for each in found) == ["paused", "report", "send"]


def test_one_fire_is_told_as_one_and_how_long_it_takes_in_milliseconds(
    shell: Shell,
) -> None:
    shell("add", "report", "--cron", "0 9 * * *")
    printed = shell("simulate", *FROM, "--span", "1d", "--duration", "0.021117")
    assert "\n1 fire time from" in printed
    assert "in which 1 begins" in printed
    assert " 0.021s " in printed
    assert " 0.000117s " in shell("simulate", *FROM, "--duration", "0.000117")


def test_what_a_module_declares_is_simulated_without_a_store(
    shell: Shell, declaring: str, tmp_path: Path
) -> None:
    words = ("simulate", f"{declaring}:registry", *FROM)
    printed = shell(*words, "--duration", "10m", where=False)
    assert "clocks in Europe/Berlin go forward by 60 min" in printed
    assert "report: 02:30 does not exist that day" in printed
    assert "beware: report: a run of 10 min outlives its expire_after" in shell.errors
    shell(*words, "--svg", str(tmp_path / "week.svg"), where=False)
    assert (tmp_path / "week.svg").read_text().startswith("<svg ")
    told = shell.refusal(*words, "--svg", str(tmp_path), where=False)
    assert "cannot be written: Is a directory" in told
    assert "0 fire times" in shell("simulate", f"{declaring}:none", where=False)
    [all] = shell.json("simulate", f"{declaring}:none")
    assert all["most_at_once_at"] is None
    assert all["start"].endswith("Z")
    shell("simulate", f"{declaring}:second", *FROM, "--workers", "1", where=False)
    assert "more than 1 would run at once" in shell.errors


def test_a_source_that_is_none_is_refused(
    shell: Shell, declaring: str, tmp_path: Path
) -> None:
    for words, text in (
        (["lines"], "there is no file lines; definitions in a module are named as"),
        ([f"{declaring}:odd"], "must be a list of definitions"),
        ([f"{declaring}:task.__name__"], "must be a list of definitions"),
        (
            ["json:dumps"],
            "json:dumps, called without arguments, raised TypeError: ",
        ),
        ([f"{declaring}:failing"], "raised RuntimeError: no settings"),
        ([f"{declaring}:none", "--name", "a"], "--name and --queue are for what is"),
        ([f"{declaring}:none", "--span", "9999d"], "span must be at most 366 days"),
    ):
        assert text in shell.refusal("simulate", *words, where=False)
    file = tmp_path / "lines"
    file.write_text('{"trigger": {"every": 3600}}\n')
    assert "167 fire times" in shell("simulate", "lines", *FROM, where=False)
    file.write_text('\n{"trigger": {"every": 60}}\n{"type": "webhook"}\n')
    told = shell.refusal("simulate", "lines", where=False)
    assert "lines, line 3: it is a job, and must be a definition" in told


def test_a_set_is_planned_and_applied(shell: Shell, declaring: str) -> None:
    own = ("--owner", "shop")
    first, second = f"{declaring}:first", f"{declaring}:second"
    assert "2 to add" in shell("plan", first, *own, "--check", code=1)
    assert shell.json("list") == []
    assert shell("plan", first, *own, "--apply").endswith("it has been declared\n")
    assert "2 unchanged" in shell("plan", first, *own, "--check")
    printed = shell("plan", second, *own)
    assert "1 to add, 2 to change, 0 to delete, 0 unchanged" in printed
    assert "    trigger: every hour -> every day at 09:00\n" in printed
    assert '    metadata: {"n": 1} -> {"n": 2}\n' in printed
    assert "    expire_after: - -> 1m\n" in printed
    [found] = shell.json("plan", second, *own)
    assert [each["fields"] for each in found["changed"]] == [
        ["trigger"],
        ["metadata", "expire_after"],
    ]
    printed = shell("plan", f"{declaring}:none", *own)
    assert "0 to add, 0 to change, 2 to delete" in printed
    assert "\n- " in printed


@pytest.mark.slow
def test_more_than_one_is_deleted_only_if_the_user_says_so(
    shell: Shell, declaring: str
) -> None:
    own = ("--owner", "shop", "--apply")
    shell("plan", f"{declaring}:first", *own, "--version", "2")
    shell("plan", f"{declaring}:none", *own, "--version", "2", code=2)
    assert "to delete 2 definitions, say --yes" in shell.errors
    shell("plan", f"{declaring}:second", *own, "--version", "1", code=1)
    assert "a later version of the set has been declared" in shell.errors
    shell("plan", f"{declaring}:none", *own, "--version", "3", "--removed", "keep")
    assert len(shell.json("list")) == 2
    shell("plan", f"{declaring}:none", *own, "--version", "4", "--yes")
    assert shell.json("list") == []


def test_what_is_in_no_set_is_taken_in_by_the_option_that_is_named(
    shell: Shell, declaring: str
) -> None:
    shell("add", "a", "--key", "a", "--every", "1h")
    own = (f"{declaring}:first", "--owner", "shop")
    assert "adopt=True, or --adopt" in shell("plan", *own)
    assert "adopt=True, or --adopt" in shell("plan", *own, "--apply", code=2) + (
        shell.errors
    )
    shell("plan", *own, "--apply", "--adopt")


def test_what_would_be_refused_is_shown(shell: Shell, declaring: str) -> None:
    shell("plan", f"{declaring}:first", "--owner", "shop", "--apply")
    assert "! definition " in shell("plan", f"{declaring}:first", "--owner", "bank")
    told = shell("plan", f"{declaring}:first", "--owner", "bank", "--apply", code=2)
    assert "is in the set of 'shop'" in told + shell.errors
    told = shell.refusal("plan", "x:y", "--owner", "a", "--check", "--apply")
    assert "say --check or --apply, not both" in told
    told = shell.refusal("plan", "x:y", "--owner", "a", "--version", "1")
    assert "--version is of use with --apply only" in told
