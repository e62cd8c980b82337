"""Commands about instances, and about why, how many and which nodes."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from go_scheduler import Fail, Scheduler
from go_scheduler.client import Client
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.models import NodeInfo, Outcome, Stage
from go_scheduler.stores import open_store
from go_scheduler.stores.messages import RunOutcome
from go_scheduler.testing.builders import add, claim, claim_of, put, report_stage, task
from tests.case_tables import json_table
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import TaskInstance
    from tests.cli.shell import Shell


@pytest.fixture
def shell(either: Shell) -> Shell:
    return either


@contextmanager
def running(shell: Shell, *, finished: int, error: str = "") -> Iterator[None]:
    """A scheduler whose handler always fails, once so many have ended."""
    ended = threading.Semaphore(0)

    def handler(instance: TaskInstance) -> None:
        raise Fail(error)

    tell = hears(InstanceFinished)(lambda _: ended.release())
    with (
        closing(open_store(shell.store)) as store,
        Scheduler(handler, store, listeners=[tell]),
    ):
        for _ in range(finished):
            assert ended.acquire(timeout=FAILED_AFTER)
        yield


@pytest.mark.slow
def test_a_definition_is_run_now_or_later_with_a_payload_and_once_by_a_key(
    shell: Shell,
) -> None:
    shell("add", "send", "--on-demand")
    [now] = shell.json("run", "send", "--payload", '{"order": 7}', "--key", "7")
    assert (now["state"], now["payload"], now["key"]) == ("pending", {"order": 7}, "7")
    [again] = shell.json("run", "send", "--key", "7")
    assert again["id"] == now["id"]
    [at] = shell.json("run", "send", "--at", "2030-01-01T09:00:00Z")
    assert at["execute_at"] == "2030-01-01T09:00:00Z"
    assert "pending, at " in shell("run", "send", "--delay", "5m")
    listed = shell.json("list", "--instances", "--definition", "send")
    assert listed[0]["id"] == at["id"]
    assert len(listed) == 3
    since = shell.json("list", "-i", "--since", "2029-01-01T00:00:00Z")
    assert [each["id"] for each in since] == [at["id"]]
    assert "say when by at or by delay" in shell.refusal(
        "run", "send", "--at", "2030-01-01T09:00Z", "--delay", "5m"
    )


@pytest.mark.slow
def test_instances_are_shown_and_cancelled_by_the_beginning_of_their_id(
    shell: Shell,
) -> None:
    shell("add", "send", "--on-demand")
    ids = [shell.json("run", "send", "--delay", "1d")[0]["id"] for _ in range(3)]
    shown = shell("show", ids[0][:13])
    assert ids[0] in shown
    assert "pending" in shown
    assert shell.json("cancel", ids[0][:13]) == [{"id": ids[0], "answer": "cancelled"}]
    assert "to cancel 2 instances, say --yes" in shell.refusal("cancel", *ids[1:])
    assert shell("cancel", *ids, "--yes").count("cancelled") == 2
    assert "ended before" in shell("cancel", ids[0], code=1)
    assert "say which: by their ids" in shell.refusal("cancel")
    assert "no instance has an id that begins with 'x'" in shell.refusal(
        "cancel", "x", code=1
    )
    shell.refusal("cancel", str(uuid4()), code=1)
    assert len(shell("list", "-i", "--state", "cancelled").splitlines()) == 4


@pytest.mark.slow
def test_the_beginning_of_an_id_may_mean_several_instances(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("add", "send", "--on-demand")
    definition = shell.json("list")[0]["id"]
    ids = [UUID(int=0xABCDEF << 104 | number) for number in (1, 2)]

    def run(client: Client) -> None:
        for each in ids:
            client.run_now(UUID(definition), delay=timedelta(days=1), id=each)

    shell.call(run)
    told = shell.refusal("cancel", "abcdef")
    assert "may mean several" in told
    assert told.count(" send 2") == 2
    monkeypatch.setattr("go_scheduler.cli.selecting._PAGE", 1)
    monkeypatch.setattr("go_scheduler.cli.selecting._MOST_PAGES", 2)
    assert "give its whole id" in shell.refusal("cancel", "f" * 8)
    shell("cancel", str(ids[0]))


@pytest.mark.slow
def test_what_has_failed_is_shown_with_its_error_and_run_again(
    shell: Shell, near: Shell
) -> None:
    shell("add", "send", "--on-demand")
    ids = [shell.json("run", "send")[0]["id"] for _ in range(2)]
    with running(shell, finished=2, error="out of\x1b[31m paper"):
        [node] = shell.json("nodes")
        assert (node["alive"], node["queues"]) == (True, ["default"])
        assert "alive" in shell("nodes")
    shown = shell("show", ids[0])
    assert "failed" in shown
    assert "out of\\x1b[31m paper" in shown
    for words in (["show", ids[0]], ["why", ids[0]], ["list", "-i"], ["nodes"]):
        assert shell(*words) == near(*words)
    [document] = shell.json("show", ids[0])
    assert [document] == near.json("show", ids[0])
    assert "paper" in document["error"]
    assert shell.json("stats")[0]["instances"]["failed"] == 2
    assert "failed      2" in shell("stats")
    assert "say which" in shell.refusal("retry")
    assert "say which" in shell.refusal("retry", ids[0], "--name", "send")
    assert "to run 2 instances again" in shell.refusal("retry", "--name", "send")
    [again] = shell.json("retry", ids[0][:13])
    assert again["state"] == "pending"
    assert "only what has failed" in shell.refusal("retry", ids[0], code=1)
    assert "pending" in shell("retry", "--definition", "send")
    assert shell("retry", "--name", "send", code=1) == ""


@pytest.mark.slow
def test_it_says_why(shell: Shell) -> None:
    shell("add", "report", "--cron", "0 9 * * *", "--paused", "--note", "holidays")
    assert "holidays" in shell("why", "report")
    [document] = shell.json("why", "report", "--at", "2030-01-01T09:00:00Z")
    assert document["because"] == "paused"
    assert "no task definition has the id" in shell.refusal("why", str(uuid4()), code=1)
    shell("resume", "report")
    [document] = shell.json("why", "report", "--at", "2030-01-01T08:00:00Z")
    assert document["nearest"][1]["at"] == "2030-01-01T09:00:00Z"
    [made] = shell.json("run", "report")
    [document] = shell.json("why", made["id"])
    assert document["instance"]["id"] == made["id"]


@pytest.mark.slow
def test_what_was_skipped_is_shown_with_its_reason(shell: Shell) -> None:
    shell("add", "send", "--on-demand", "--drop-after", "1s")
    shell("run", "send", "--at", "2020-01-01T00:00Z")
    with running(shell, finished=1):
        pass
    [skipped] = shell.json("list", "-i", "--state", "skipped")
    assert skipped["skipped"]["count"] == 1
    assert "drop_after" in shell("show", skipped["id"])


@pytest.mark.slow
def test_it_says_which_node_has_what_is_running_and_what_a_delete_leaves(
    shell: Shell,
) -> None:
    go, called = threading.Event(), threading.Event()

    def handler(instance: TaskInstance) -> None:
        called.set()
        assert go.wait(FAILED_AFTER)

    shell("add", "send", "--on-demand", "--overlap", "buffer_all")
    [first] = shell.json("run", "send")
    with closing(open_store(shell.store)) as store, Scheduler(handler, store) as it:
        assert called.wait(FAILED_AFTER)
        [document] = shell.json("why", first["id"])
        assert document["node"]["id"] == document["instance"]["claimed_by"]
        assert shell.json("cancel", first["id"])[0]["answer"] == "requested"
        shown = shell("show", first["id"])
        assert "requested" in shown
        assert "node" in shown
        deleted = shell("delete", "send")
        assert "deleted; 1 of its instances had started, and run on" in deleted
        go.set()
        it.stop()


@pytest.mark.parametrize("result", ['{"width": 640}', "0", "[]"])
def test_a_run_on_a_bus_is_shown_with_its_stage_and_then_its_result(
    shell: Shell, result: str
) -> None:
    with closing(open_store(shell.store)) as store:
        store.initialize()
        add(store, put(store, task(name="resize")))
        [instance] = claim(store)
        id = str(instance.id)
        assert "  running  " in shell("list", "--instances")
        report_stage(store, instance, Stage.PUBLISHED)
        assert "  running (published)  " in shell("list", "--instances")
        assert "\nstage           published\n" in shell("show", id)
        report_stage(
            store, instance, Stage.STARTED, worker="anna", progress='{"done": 1}'
        )
        shown = shell("show", id)
        for line in (
            "worker          anna",
            "stage           started",
            'progress        {"done": 1}',
        ):
            assert f"\n{line}\n" in shown
        [run] = store.select(limit=1)
        end = RunOutcome(
            claim=claim_of(instance),
            started_at=run.started_at,
            outcome=Outcome.COMPLETED,
            result=result,
        )
        assert store.finish_instances([end]).done
    assert "  completed  " in shell("list", "--instances")
    shown = shell("show", id)
    assert f"\nresult          {result}\n" in shown
    assert "\nworker          anna\n" in shown
    assert "\nstage " not in shown


def test_a_node_is_alive_or_stopping_or_gone(
    near: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    nodes = [
        NodeInfo(
            id=UUID(int=1),
            **dict.fromkeys(("host", "pid", "version", "queues", "names")),
            since=now,
            seen_at=now,
            stopping=stopping,
            alive=alive,
        )
        for alive, stopping in ((True, False), (True, True), (False, True))
    ]
    monkeypatch.setattr(Client, "nodes", lambda _: nodes)
    rows = [each.split()[1:6] for each in near("nodes").splitlines()[1:]]
    lives = ("alive", "stopping", "gone")
    assert rows == [["-", "-", "-", "any", life] for life in lives]


def test_a_preview_needs_no_store(near: Shell) -> None:
    words = ("preview", "every other tuesday at 9:34am")
    assert "Tue 2030-01-01 09:34:00" in near(
        *words, "--after", "2029-12-31T00:00Z", where=False
    )
    lines = near("preview", "--cron", "0 9 * * *", "-n", "3", where=False)
    assert lines.startswith("every day at 09:00, in UTC\n")
    assert len(lines.splitlines()) == 4
    printed = near(
        *("preview", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--json"),
        *("--after", "2030-03-30T12:00Z", "--count", "1"),
        where=False,
    )
    assert printed == (
        '{"at":"2030-03-31T01:00:00Z","local":"2030-03-31T03:00:00+02:00",'
        '"effect":"02:30 does not exist that day"}\n'
    )


@pytest.mark.parametrize(
    ("words", "text"),
    json_table("cli/previews_refused"),
)
def test_a_preview_says_what_is_wrong(near: Shell, words: list[str], text: str) -> None:
    assert text in near.refusal(*words, where=False)
