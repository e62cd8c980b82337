"""The command `import`: lines of definitions and jobs."""

from __future__ import annotations

import io
import json
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.cli import imported_lines
from go_scheduler.errors import StoreUnavailableError
from tests.cli.shell import Shell
from tests.conftest import SHARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler import TaskDefinition

ID = "abcdef12-0000-4000-8000-000000000000"


def written(*lines: object) -> str:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    Path("lines.jsonl").write_text("\n".join(texts))
    return "lines.jsonl"


def add_task(shell: Shell, name: str) -> None:
    shell("add", name, "--on-demand", "--key", f"task {name}")


@pytest.mark.parametrize("engine", SHARED)
def test_definitions_and_jobs_are_imported_and_once_if_repeated(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(store_url, capsys)
    add_task(shell, "send")
    file = written(
        {"id": ID, "name": "report", "trigger": {"cron": "0 9 * * *"}},
        "",
        {"type": "send", "payload": {"order": 7}, "key": "7"},
        {"type": "send", "key": "8", "delay": 60},
    )
    for _ in range(2):
        assert shell("import", file) == "1 definition, 2 jobs, 0 wrong\n"
    assert shell.json("show", ID)[0]["name"] == "report"
    jobs = shell.json("list", "-i")
    assert {each["key"] for each in jobs} == {"7", "8"}


def test_jobs_that_a_full_queue_drops_are_counted_by_themselves(shell: Shell) -> None:
    shell("types", "put", "send", "--max-queue", "1", "--when-full", "drop")
    file = written({"type": "send"}, {"type": "send"})
    assert shell("import", file) == "0 definitions, 1 job, 1 dropped, 0 wrong\n"
    assert "max queue       1\nwhen full       drop\n" in shell("types", "show", "send")


@pytest.mark.slow
def test_what_is_listed_can_be_imported_again(shell: Shell, tmp_path: Path) -> None:
    shell(
        "add", "report", "--cron", "0 9 * * *", "--max-attempts", "3", "--jitter", "5"
    )
    [listed] = shell.json("list")
    file = written(listed)
    shell("import", file)
    assert shell.json("list") == [listed]
    other = f"sqlite:///{tmp_path / 'other.db'}"
    del listed["revision"]
    shell("import", written(listed), "--store", other, where=False)
    shown = json.loads(shell("list", "--json", "--store", other, where=False))
    assert {**shown, "revision": None} == {**listed, "revision": None}


@pytest.mark.slow
def test_lines_that_are_wrong_are_told_and_left_out(shell: Shell) -> None:
    add_task(shell, "send")
    file = written(
        "nothing",
        [],
        {"name": "neither"},
        {"type": "send", "trigger": {"every": 5}},
        {"trigger": {"every": 0}},
        {"trigger": {"every": 5}, "nmae": "x"},
        {"trigger": {"every": 5}, "priority": 9},
        {"trigger": {"every": 5}, "id": ID, "revision": 7},
        {"type": "none"},
        {"type": "send", "at": "2030-01-01T09:00:00Z", "delay": 5},
        {"type": "send", "at": "noon"},
        {"trigger": {"every": 5}},
        {"type": "send"},
    )
    [counts] = shell.json("import", file, code=1)
    assert counts == {"definitions": 1, "jobs": 1, "dropped": 0, "wrong": 11}
    told = sorted(shell.errors.splitlines(), key=lambda each: int(each[5:7].strip(":")))
    for number, text in enumerate(
        (
            "it must be a JSON object with a trigger",
            "it must be a JSON object",
            "it must be a JSON object",
            "it must be a JSON object",
            "every must be",
            "nmae: there is no such field: did you mean name?",
            "priority must be from 0 to 3",
            "none has this id",
            "knows the type 'none'",
            "delay: say when by at or by delay",
            "at: it must be a time as RFC 3339 has it",
        ),
    ):
        assert told[number].startswith(f"line {number + 1}: ")
        assert text in told[number]


def test_what_only_the_server_sets_is_not_offered_for_an_unknown_field(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_text('{"trigger": {"every": 5}, "zzz": 1, "stat": 1}')
    shell("import", str(file), code=1)
    zzz, stat = shell.errors.splitlines()[0].split("; ")
    assert zzz.endswith("owner, paused, note, revision")
    assert "state" not in stat


@pytest.mark.slow
def test_large_files_are_put_in_by_batches(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported_lines, "_LINES", 2)
    add_task(shell, "send")
    lines = [{"type": "send"}, {"trigger": {"every": 5}}] * 5
    assert shell.json("import", written(*lines)) == [
        {"definitions": 5, "jobs": 5, "dropped": 0, "wrong": 0}
    ]
    assert shell.json("stats")[0]["instances"]["pending"] == 5


JOBS = [
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
        "owner": "ann",
    },
    {"type": "send", "priority": 9},
    {"type": "send", "payload": {"order": 2}},
    {"type": "send", "payload": {"order": 3}},
]


@pytest.mark.slow
def test_jobs_are_imported_alike_into_a_store_and_by_a_server(
    shell: Shell,
    far: Shell,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imported_lines, "_LINES", 3)
    near = Shell(f"sqlite:///{shutil.copy('cli.db', 'near.db')}", capsys)
    options = ("--start", "2030-01-01T00:00:00Z", "--window", "1h", "--jitter", "1m")
    found = []
    for each in (near, far):
        add_task(each, "send")
        file = written(*JOBS)
        for _ in range(2):
            told = each.json("import", file, "--import", "may", *options, code=1)
            assert told == [{"definitions": 1, "jobs": 5, "dropped": 0, "wrong": 1}]
        assert each.errors == "line 5: priority: priority must be from 0 to 3: 9\n"
        jobs = {job["key"]: job for job in each.json("list", "-i")}
        own = each.json("show", jobs["own"]["definition_id"])[0]
        found.append(
            (
                {
                    key: {
                        name: job[name]
                        for name in ("execute_at", "due_at", "payload", "queue", "name")
                    }
                    for key, job in jobs.items()
                },
                {**own, "completed_at": None},
            )
        )
    assert found[0] == found[1]
    jobs, own = found[0]
    assert jobs.keys() == {*(f"import may:{n}" for n in (2, 3, 6, 7)), "own"}
    assert own["retry"]["max_attempts"] == 7
    times = [jobs[f"import may:{n}"]["execute_at"] for n in (2, 6, 7)]
    assert len(set(times)) == 3
    assert all("2030-01-01T00:00" < each < "2030-01-01T01:02" for each in times)


@pytest.mark.slow
def test_one_time_counts_for_all_parts_and_it_goes_on_by_its_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported_lines, "_LINES", 1)
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

    monkeypatch.setattr("go_scheduler.client.Client.aenqueue_all", refuse)
    assert shell("import", file, "--import", "may", code=3) == ""
    assert "by --import may, and no job is made twice" in shell.errors
    assert "what was made stays" not in shell.errors

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(imported_lines.Imported, "_put_jobs", interrupt)
    assert shell("import", file, "--import", "june", code=130) == ""
    assert "by --import june, and no job is made twice" in shell.errors


@pytest.mark.slow
def test_lines_come_from_standard_input(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b'{"trigger": {"on_demand": true}}\n'))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert shell("import", "-") == "1 definition, 0 jobs, 0 wrong\n"
    assert shell("import", written()) == "0 definitions, 0 jobs, 0 wrong\n"
    assert shell.refusal("import", "none.jsonl") == (
        "go_scheduler: none.jsonl cannot be read: No such file or directory\n"
    )


def test_an_import_ends_if_the_store_goes_away(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, definitions: Sequence[TaskDefinition]) -> Any:
        raise StoreUnavailableError("it is away")

    monkeypatch.setattr("go_scheduler.client.Client.schedule_all", refuse)
    file = written({"trigger": {"every": 5}})
    assert "it is away" in shell.refusal("import", file, code=3)


def test_a_bar_is_drawn_on_a_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    shell("import", written({"trigger": {"every": 5}}))
    assert "importing" in shell.errors
