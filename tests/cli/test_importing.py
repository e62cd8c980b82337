"""The command `import`: lines of definitions and jobs."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    CatchUp,
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Overlap,
    RetryPolicy,
    TaskDefinition,
)
from go_scheduler.cli import importing
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores import open_store
from go_scheduler.testing.builders import HOUR, fire
from tests.case_tables import json_table
from tests.cli.test_command_line import raising

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from tests.cli.shell import Shell

ID = "abcdef12-0000-4000-8000-000000000000"


def written(*lines: object) -> str:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    Path("lines.jsonl").write_text("\n".join(texts))
    return "lines.jsonl"


def add_task(shell: Shell, name: str) -> None:
    shell("add", name, "--on-demand", "--key", f"task {name}")


def test_definitions_and_jobs_are_imported_and_once_if_repeated(either: Shell) -> None:
    add_task(either, "send")
    file = written(
        {"id": ID, "name": "report", "trigger": {"cron": "0 9 * * *"}},
        "",
        {"type": "send", "payload": {"order": 7}, "key": "7"},
        {"type": "send", "key": "8", "delay": 60},
    )
    for told in (
        "1 definition and 2 jobs; 0 known",
        "0 definitions and 0 jobs; 3 known",
    ):
        assert either("import", file) == f"made {told}, 0 wrong\n"
    assert either.json("show", ID)[0]["name"] == "report"
    assert {each["key"] for each in either.json("list", "-i")} == {"7", "8"}


def test_jobs_that_a_full_queue_drops_are_counted_by_themselves(either: Shell) -> None:
    either("types", "put", "send", "--max-queue", "1", "--when-full", "drop")
    told = "made 0 definitions and 1 job; 0 known, 1 dropped, 0 wrong\n"
    assert either("import", written(*[{"type": "send"}] * 2)) == told
    limits = "max queue       1\nwhen full       drop\n"
    assert limits in either("types", "show", "send")


@pytest.mark.slow
def test_what_is_listed_can_be_imported_again(shell: Shell, tmp_path: Path) -> None:
    shell(
        "add", "report", "--cron", "0 9 * * *", "--max-attempts", "3", "--jitter", "5"
    )
    [listed] = shell.json("list")
    shell("import", written(listed))
    assert shell.json("list") == [listed]
    other = shell.at(f"sqlite:///{tmp_path / 'other.db'}")
    del listed["revision"]
    other("import", written(listed))
    [shown] = other.json("list")
    assert {**shown, "revision": None} == {**listed, "revision": None}


def test_an_import_of_what_was_exported_makes_the_same_definitions(
    either: Shell, tmp_path: Path
) -> None:
    wanted = (
        TaskDefinition(trigger=CronTrigger("0 9 * * *"), key="nightly", name="report"),
        TaskDefinition(trigger=DelayTrigger(HOUR), paused=True, note="ä", queue="b"),
        TaskDefinition(
            trigger=IntervalTrigger(HOUR),
            metadata={"n": [1, 2.5, None]},
            retry=RetryPolicy(max_attempts=None, delay=None),
            catch_up=CatchUp(mode="all"),
            jitter=timedelta(0),
            overlap=Overlap.SKIP,
            max_queue=3,
            when_full="drop",
        ),
    )
    owned = TaskDefinition(trigger=OnDemandTrigger(), key="task send", name="send")
    over = TaskDefinition(trigger=ExecuteOnceTrigger(datetime(2020, 1, 1, tzinfo=UTC)))
    of_one_job = TaskDefinition(trigger=OnDemandTrigger(lasting=False))

    def prepare(client: Client) -> None:
        client.schedule_all([*wanted, over, of_one_job])
        client.declare([owned], owner="shop")

    either.call(prepare)
    with closing(open_store(either.store)) as store:
        fire(store, store.get_definition(over.id), datetime(2020, 1, 1, tzinfo=UTC))
    Path("lines.jsonl").write_text(either("export"))
    other = either.at(f"sqlite:///{tmp_path / 'other.db'}")
    assert "made 4 definitions and 0 jobs" in other("import", "lines.jsonl")
    made = other.call(lambda client: client.list_definitions())
    assert {each.id: each for each in made} == {
        each.id: each for each in (*wanted, owned)
    }
    assert [each.owner for each in made if each.owner] == ["shop"]
    assert {each.note for each in made if each.paused} == {"ä"}
    assert sorted(other("export").splitlines()) == sorted(
        Path("lines.jsonl").read_text().splitlines()
    )
    assert len(either("export", "--name", "report").splitlines()) == 1


WRONG = json_table("cli/lines_refused")


@pytest.mark.slow
def test_lines_that_are_wrong_are_told_and_left_out(shell: Shell) -> None:
    add_task(shell, "send")
    right = ({"trigger": {"every": 5}}, {"type": "send"})
    [counts] = shell.json(
        "import", written(*(line for line, _ in WRONG), *right), code=1
    )
    others = {"definitions": 1, "jobs": 1, "known": 0, "dropped": 0}
    assert counts == {**others, "wrong": len(WRONG)}
    found = dict(re.findall(r"line (\d+): (.*)", shell.errors))
    for number, (_, text) in enumerate(WRONG, 1):
        assert text in found[str(number)]


JOBS: list[dict[str, Any]] = [
    {"name": "made", "trigger": {"on_demand": True}, "id": ID},
    {"type": "send", "payload": {"order": 1}},
    {"type": "send", "at": "2031-01-01T00:00:00Z", "jitter": 0},
    {
        "type": "send",
        "key": "own",
        "queue": "mail",
        "priority": 0,
        "retry": {"max_attempts": 7, "delay": 5},
        "timeout": 30,
        "expire_after": 60,
        "lock": "printer",
        "metadata": {"team": "a"},
    },
    {"type": "send", "priority": 9},
    {"type": "send", "payload": {"order": 2}},
    {"type": "send", "payload": {"order": 3}},
]


@pytest.mark.slow
def test_jobs_are_imported_alike_into_a_store_and_by_a_server(
    either: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_LINES", 3)
    options = ("--start", "2030-01-01T00:00:00Z", "--window", "1h", "--jitter", "1m")
    add_task(either, "send")
    file = written(*JOBS)
    for made, known in ((1, 0), (0, 6)):
        [told] = either.json("import", file, "--import", "may", *options, code=1)
        counts = {"definitions": made, "jobs": made * 5, "known": known}
        assert told == {**counts, "dropped": 0, "wrong": 1}
    assert either.errors == "line 5: priority: priority must be from 0 to 3: 9\n"
    jobs = {job["key"]: job for job in either.json("list", "-i")}
    assert jobs.keys() == {*(f"import may:{n}" for n in (2, 3, 6, 7)), "own"}
    assert jobs["own"]["queue"] == "mail"
    [own] = either.call(lambda client: client.list_instances(key="own"))
    assert own.overrides == {
        "queue": "mail",
        "priority": 0,
        "retry": RetryPolicy(max_attempts=7, delay=timedelta(seconds=5)),
        "timeout": timedelta(seconds=30),
        "expire_after": timedelta(minutes=1),
        "lock": "printer",
        "metadata": {"team": "a"},
    }
    assert jobs["import may:3"]["execute_at"] == "2031-01-01T00:00:00Z"
    times = [jobs[f"import may:{n}"]["execute_at"] for n in (2, 6, 7)]
    assert len(set(times)) == 3
    assert all("2030-01-01T00:00" < each < "2030-01-01T01:02" for each in times)
    assert min(times) < "2030-01-01T00:20"
    assert max(times) > "2030-01-01T00:40"


@pytest.mark.slow
def test_one_time_counts_for_all_parts_and_it_goes_on_by_its_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_LINES", 1)
    add_task(shell, "send")
    file = written({"type": "send"}, {"type": "send"})
    shell("import", file, "--interval", "1h")
    first, second = sorted(
        datetime.fromisoformat(each["execute_at"]) for each in shell.json("list", "-i")
    )
    assert second - first == timedelta(hours=1)
    assert "--window or --interval" in shell.refusal(
        "import", file, "--interval", "1h", "--window", "1h"
    )

    async def refuse(*_: object, **__: object) -> Any:
        raise StoreUnavailableError("it is away")

    with monkeypatch.context() as away:
        away.setattr("go_scheduler.client.Client.aenqueue_all", refuse)
        assert shell("import", file, "--import", "may", code=3) == ""
    assert "by --import may, and nothing is made twice" in shell.errors
    assert "what was made stays" not in shell.errors

    with monkeypatch.context() as broken:
        interrupt = raising(KeyboardInterrupt())
        broken.setattr(importing.Imported, "_put_jobs", interrupt)
        assert shell("import", file, code=130) == ""
    [name] = re.findall(r"--import (\w+), and nothing is made twice", shell.errors)
    told = "made 0 definitions and 2 jobs; 0 known, 0 wrong\n"
    assert shell("import", file, "--import", name) == told


RECURRING = [
    {"name": "scrape", "trigger": {"every": 7200}},
    {"name": "scrape", "trigger": {"after_end": 7200}},
    {"name": "scrape", "trigger": {"phrase": "every 2 hours"}, "jitter": 5},
    {"name": "scrape", "trigger": {"every": 7200, "anchor": "2040-01-01T00:00:00Z"}},
    {"name": "scrape", "trigger": {"cron": "0 9 1 1 *"}},
    {"name": "scrape", "trigger": {"every": 0}},
]


@pytest.mark.slow
def test_recurring_definitions_are_staggered_and_once_if_repeated_by_a_name(
    either: Shell,
) -> None:
    start = datetime(2040, 1, 1, tzinfo=UTC)
    options = ["--start", start.isoformat(), "--interval", "10m", "--jitter", "1m"]
    listed = []
    for made, known in ((5, 0), (0, 5)):
        file = written(*RECURRING)
        [told] = either.json("import", file, "--import", "may", *options, code=1)
        assert told["definitions"] == made
        assert told["known"] == known
        assert told["wrong"] == 1
        listed.append(sorted(either.json("list"), key=lambda each: str(each["id"])))
        options = ["--window", "1h"]  # what is known stays as it is
    assert [each["id"] for each in listed[0]] == [each["id"] for each in listed[1]]
    firsts = {each["id"]: each["next_fire_time"] for each in listed[0]}
    assert firsts == {each["id"]: each["next_fire_time"] for each in listed[1]}
    ids = [str(TaskDefinition.id_for(f"import may:{n}")) for n in range(1, 6)]
    found = {each["id"]: each for each in listed[0]}
    times = [datetime.fromisoformat(found[id]["next_fire_time"]) for id in ids]
    minutes = timedelta(minutes=1)
    assert times[:4] == [start, start + 10 * minutes, start + 20 * minutes, start]
    assert [found[id]["jitter"] for id in ids] == [60, 60, 5, 60, 60]


def test_recurring_definitions_first_fire_within_a_window(shell: Shell) -> None:
    triggers = [{"every": 86400}, {"after_end": 86400}] * 4
    file = written(*({"name": "scrape", "trigger": each} for each in triggers))
    before = datetime.now(UTC)  # noqa: TID251 - what a process of its own would see
    shell("import", file, "--window", "4h")
    times = [each["next_fire_time"] for each in shell.json("list")]
    firsts = sorted(datetime.fromisoformat(each) - before for each in times)
    assert firsts[-1] < timedelta(hours=5)
    gaps = [after - each for each, after in pairwise(firsts)]
    assert all(timedelta(minutes=5) < each < timedelta(hours=1) for each in gaps)
    spread = ("--start", "9999-12-31T23:00:00Z", "--interval", "2h")
    shell("import", written(*[{"trigger": {"every": 5}}] * 2), *spread, code=1)
    assert "line 2: it would first fire in a year that no calendar has" in shell.errors


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_read_by_its_items(shell: Shell, indent: int | None) -> None:
    add_task(shell, "send")
    items = [{"trigger": {"every": 5}}, {"type": "send"}, {"nothing": 1}]
    Path("items.json").write_text("\n\ufeff" + json.dumps(items, indent=indent))
    told = "made 1 definition and 1 job; 0 known, 1 wrong\n"
    assert shell("import", "items.json", code=1) == told
    assert shell.errors.startswith("item 3: it must be a JSON object with a trigger")
    Path("items.json").write_text("[]")
    told = "made 0 definitions and 0 jobs; 0 known, 0 wrong\n"
    assert shell("import", "items.json") == told


def test_what_begins_as_an_array_and_is_none_is_told(shell: Shell) -> None:
    file = written('[{"trigger": {"every": 5}},', '{"trigger"')
    told = shell.refusal("import", file)
    assert "it begins like a JSON array, but is none: " in told
    # The first of several lines may be an array, which is wrong by itself.
    file = written([], {"trigger": {"every": 5}})
    told = "made 1 definition and 0 jobs; 0 known, 1 wrong\n"
    assert shell("import", file, code=1) == told
    assert shell.errors.startswith("line 1: it must be a JSON object")


@pytest.mark.slow
def test_lines_come_from_standard_input(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b'{"trigger": {"on_demand": true}}\n'))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert shell("import", "-") == "made 1 definition and 0 jobs; 0 known, 0 wrong\n"
    told = "made 0 definitions and 0 jobs; 0 known, 0 wrong\n"
    assert shell("import", written()) == told
    assert shell.refusal("import", "none.jsonl") == (
        "go_scheduler: none.jsonl cannot be read: No such file or directory\n"
    )


def test_an_import_ends_if_the_store_goes_away(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = raising(StoreUnavailableError("it is away"))
    monkeypatch.setattr("go_scheduler.client.Client.schedule_all", away)
    file = written({"trigger": {"every": 5}})
    assert "it is away" in shell.refusal("import", file, code=3)


def test_a_bar_is_drawn_on_a_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    shell("import", written({"trigger": {"every": 5}}))
    assert "importing" in shell.errors
