"""Commands about definitions and types: add, list, show, pause, resume, delete."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

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
from go_scheduler.triggers import RecurrenceTrigger
from tests.case_tables import json_table
from tests.cli.shell import Shell
from tests.conftest import SHARED


@pytest.fixture
def shell(either: Shell) -> Shell:
    return either


def stored(shell: Shell) -> TaskDefinition:
    [definition] = shell.call(lambda client: client.list_definitions())
    assert isinstance(definition, TaskDefinition)
    return definition


@pytest.mark.parametrize("engine", SHARED)
def test_a_definition_is_added_listed_paused_and_deleted_on_each_store(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(store_url, capsys)
    assert "every day at 09:00" in shell("add", "report", "--cron", "0 9 * * *")
    [listed] = shell.json("list")
    assert (listed["name"], listed["state"]) == ("report", "active")
    shell("pause", "report", "--note", "holidays")
    [shown] = shell.json("show", listed["id"][:8])
    assert (shown["state"], shown["note"]) == ("paused", "holidays")
    assert "resumed" in shell("resume", "report")
    assert "deleted" in shell("delete", listed["id"])
    assert shell.json("list") == []


def test_what_replaces_another_one_of_its_key_says_so(shell: Shell) -> None:
    five, six = (("--key", "k", "--every", each) for each in ("5m", "6m"))
    assert "every 5 minutes\n" in shell("add", "y", *five)
    assert "every 5 minutes\n" in shell("add", "y", *five)
    assert "every 6 minutes (replaced)\n" in shell("add", "z", *six)


def test_the_zone_of_a_schedule_is_listed_unless_it_is_utc(shell: Shell) -> None:
    daily = ("--cron", "0 9 * * *")
    shell("add", "here", *daily)
    printed = shell("add", "there", *daily, "--timezone", "Europe/Berlin")
    assert "  every day at 09:00 (Europe/Berlin)\n" in printed
    for command in (["list"], ["show", "there"], ["show", "here"]):
        printed += shell(*command)
    assert printed.count("every day at 09:00 (Europe/Berlin)\n") == 3
    assert printed.count("every day at 09:00\n") == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "it runs at once"),
        (["--paused"], "it runs once it is resumed"),
        (["--drop-after", "1h"], "it runs unless its drop-after has passed as well"),
    ],
)
def test_of_a_time_that_has_passed_it_is_told_what_comes_of_it(
    shell: Shell, words: list[str], told: str
) -> None:
    printed = shell("add", "report", "--at", "2020-01-01T09:00Z", *words)
    assert f"at 2020-01-01 09:00:00Z, which has passed: {told}\n" in printed


def test_every_command_for_definitions_takes_a_key_also_beside_such_a_name(
    shell: Shell,
) -> None:
    url = "https://example.org/a/run?x=1%2F2"
    fields = ("--meta", "region=eu", "--meta", "a=b=c", "--metadata", '{"n": 1}')
    for name, key in (("send", url), ("send", "send"), (url, "other")):
        shell("add", name, "--every", "1h", "--key", key, *fields)
    id = str(TaskDefinition.id_for(url))
    assert f"{id}  send ({url})" in shell("list")
    [shown] = shell.json("show", url)
    assert (shown["id"], shown["key"]) == (id, url)
    assert shown["metadata"] == {"n": 1, "region": "eu", "a": "b=c"}
    assert shell.json("pause", url)[0]["id"] == id
    assert shell.json("resume", url)[0]["id"] == id
    [run] = shell.json("run", url)
    assert (run["definition_id"], run["definition_key"]) == (id, url)
    assert shell.json("list", "-i", "--definition", url) == [run]
    assert shell.json("why", url)[0]["definition_id"] == id
    [audited] = shell.json("audit", url)
    assert (audited["id"], audited["key"]) == (id, url)
    assert f"nothing of '{url}' has failed" in shell.refusal(
        "retry", "--definition", url, code=1
    )
    [told] = shell.json("delete", url)
    assert told["id"] == id
    assert {each["key"] for each in shell.json("list")} == {"send", "other"}
    shell("delete", "send")
    assert [each["key"] for each in shell.json("list")] == ["other"]


def test_a_past_period_is_backfilled(shell: Shell) -> None:
    shell("add", "report", "--cron", "0 9 * * *", "--key", "nightly")
    words = ("backfill", "nightly", "--since", "2020-01-01T00:00Z")
    until = ("--until", "2020-01-11T00:00Z")
    assert "4 made, 0 were there\n" in shell(*words, *until, "--limit", "4")
    next = "2020-01-05T09:00:00+00:00"
    assert shell.errors == f"there are more: go on with --since {next}\n"
    words = ("backfill", "nightly", "--since", next)
    [told] = shell.json(*words, *until, "--overlap", "skip")
    assert (told["made"], told["there"], told["next"]) == (6, 0, None)
    assert "start must be before end" in shell.refusal(*words, "--until", next)


BERLIN = ("--timezone", "Europe/Berlin")


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--cron", "0 9 * * *"], "trigger", CronTrigger("0 9 * * *")),
        (
            ["--cron", "0 9 * * *", *BERLIN],
            "trigger",
            CronTrigger("0 9 * * *", "Europe/Berlin"),
        ),
        (["--every", "1h30m"], "trigger", IntervalTrigger(minutes=90)),
        (["--after-end", "90"], "trigger", DelayTrigger(seconds=90)),
        (
            ["--at", "2030-01-01T09:00:00+01:00"],
            "trigger",
            ExecuteOnceTrigger(datetime(2030, 1, 1, 8, tzinfo=UTC)),
        ),
        (["--rrule", "FREQ=DAILY"], "trigger", RecurrenceTrigger("FREQ=DAILY")),
        (["--phrase", "every 15 minutes"], "trigger", IntervalTrigger(minutes=15)),
        (["--on-demand"], "trigger", OnDemandTrigger()),
        (["--on-demand"], "retry", None),
        (["--on-demand", "--max-attempts", "3"], "retry", RetryPolicy(max_attempts=3)),
        (["--on-demand", "--retry-factor", "3"], "retry", RetryPolicy(factor=3)),
        (
            ["--on-demand", "--retry-delay", "10s"],
            "retry",
            RetryPolicy(delay=timedelta(seconds=10)),
        ),
        (["--on-demand", "--retry-delay", "none"], "retry", RetryPolicy(delay=None)),
    ],
)
def test_each_way_to_say_when_and_to_retry(
    shell: Shell, words: list[str], field: str, value: object
) -> None:
    shell("add", "report", *words)
    assert getattr(stored(shell), field) == value


def test_each_option_that_says_how(shell: Shell, near: Shell) -> None:
    shell(
        *("add", "report", "--every", "5m", "--queue", "slow", "--priority", "2"),
        *("--metadata", '{"team": "a"}', "--expire-after", "10m", "--timeout", "5m"),
        *("--start-timeout", "4m", "--heartbeat-timeout", "3m"),
        *("--max-attempts", "3", "--retry-delay", "10s", "--retry-factor", "2"),
        *("--retry-max-delay", "1h", "--retry-jitter", "0.5", "--catch-up", "all"),
        *("--grace", "1m", "--within", "1h", "--drop-after", "1d", "--jitter", "2s"),
        *("--overlap", "skip", "--lock", "disk", "--paused", "--note", "not yet"),
        *("--max-per-node", "3", "--max-queue", "4", "--when-full", "drop"),
    )
    definition = stored(shell)
    expected = TaskDefinition(
        id=definition.id,
        trigger=IntervalTrigger(minutes=5),
        name="report",
        queue="slow",
        priority=2,
        metadata={"team": "a"},
        expire_after=timedelta(minutes=10),
        timeout=timedelta(minutes=5),
        start_timeout=timedelta(minutes=4),
        heartbeat_timeout=timedelta(minutes=3),
        retry=RetryPolicy(
            max_attempts=3,
            delay=timedelta(seconds=10),
            factor=2,
            max_delay=timedelta(hours=1),
            jitter=0.5,
        ),
        catch_up=CatchUp(
            mode="all",
            grace=timedelta(minutes=1),
            within=timedelta(hours=1),
            drop_after=timedelta(days=1),
        ),
        jitter=timedelta(seconds=2),
        overlap=Overlap.SKIP,
        lock="disk",
        max_per_node=3,
        max_queue=4,
        when_full="drop",
    )
    assert definition == expected
    assert (definition.paused, definition.note) == (True, "not yet")
    shown = shell("show", "report")
    assert shown == near("show", "report")
    for text in ("slow", '{"team": "a"}', "10m", "every 5 minutes", "disk", "not yet"):
        assert text in shown
    [document] = shell.json("show", "report")
    assert [document] == near.json("show", "report")
    assert document["retry"]["max_delay"] == 3600
    assert document["catch_up"]["drop_after"] == 86_400


def test_an_id_is_made_of_a_key_or_given_and_what_is_odd_is_warned_of(
    shell: Shell,
) -> None:
    for _ in range(2):
        shell("add", "report", "--on-demand", "--key", "nightly")
    assert stored(shell).id == TaskDefinition.id_for("nightly")
    id = uuid4()
    assert shell.errors == ""
    [added] = shell.json("add", "--on-demand", "--id", str(id))
    assert UUID(added["id"]) == id
    assert shell.errors.startswith("beware: it has no name, so only a scheduler")
    shell("add", "report", "--cron", "0 9 13 * fri")
    assert shell.errors.startswith("beware: ")


@pytest.mark.parametrize(
    ("words", "text"),
    json_table("cli/definitions_refused"),
)
def test_what_is_wrong_is_said_with_what_to_write(
    near: Shell, words: list[str], text: str
) -> None:
    assert text in near.refusal(*words)
    assert near.json("list") == []


NOBODY = "7f2c6a52-0f5c-4b0e-9d5e-0f3c7c1b8e11"


@pytest.mark.slow
def test_a_command_that_matches_nothing_says_so(shell: Shell) -> None:
    assert "there is no definition\n" in shell.refusal("delete", "--all", code=1)
    assert "is not there" in shell("delete", NOBODY, code=1)
    shell("add", "video", "--on-demand")
    for words, text in (
        (["pause", "report"], "no definition has the key or name 'report'"),
        (["resume", NOBODY], "no task definition has the id"),
        (["show", "report"], "nothing has the key or name 'report'"),
        (["show", NOBODY], "no task instance has the id"),
        (["pause", "--name", "vidoe"], "no definition has the name 'vidoe': did you"),
        (["resume", "--queue", "none"], "no definition is in the queue"),
        (["delete", "--name", "video", "--queue", "none"], "the queue 'none'\n"),
        (["pause", "--metadata", '{"a": 1}'], "metadata that contains '{\"a\": 1}'"),
        *(
            ([*words, "vidoe"], "or an id that begins so: did you mean 'video'?\n")
            for words in (["show"], ["pause"], ["list", "-i", "--definition"])
        ),
        (["pause", "mail"], "an id that begins so\n"),
        (["retry", "--name", "vidoe"], "nothing has the name 'vidoe': did you mean"),
        (["retry", "--name", "video"], "nothing of 'video' has failed\n"),
        (
            ["retry", "--definition", "video", "--name", "video"],
            "nothing of 'video' with the name 'video' has failed\n",
        ),
    ):
        yes = [] if words[0] in ("show", "list") else ["--yes"]
        assert text in shell.refusal(*words, *yes, code=1)


@pytest.mark.slow
def test_lists_are_filtered_and_go_on_to_a_limit(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("xa", "xb", "xc"):
        shell("add", name, "--every", "5m", "--metadata", f'{{"team": "{name}"}}')
    shell("add", "late", "--every", "1d", "--queue", "slow")
    shell("pause", "xa", "--note", "too much")
    assert shell.json("show", "xa")[0]["note"] == "too much"
    for words, names in (
        (("--state", "paused"), ["xa"]),
        (("--name", "xb"), ["xb"]),
        (("--queue", "slow"), ["late"]),
        (("--owner", "nobody"), []),
        (("--metadata", '{"team": "xc"}'), ["xc"]),
        (("--soonest-first", "--limit", "3"), ["xa", "xb", "xc"]),
    ):
        assert [each["name"] for each in shell.json("list", *words)] == names
    assert shell.errors == "there are more than 3: see --limit\n"
    header, *rows = shell("list").splitlines()
    assert header.split() == ["DEFINITION", "NAME", "QUEUE", "STATE", "NEXT", "RUNS"]
    assert len(rows) == 4
    assert all(row == row.rstrip() for row in rows)
    # More than a page is read on.
    monkeypatch.setattr("go_scheduler.cli.selecting.MOST_LISTED", 2)
    assert len(shell.json("list", "--limit", "3")) == 3
    assert "more than 3" in shell.errors
    assert len(shell.json("list", "--limit", "4")) == 4
    assert shell.errors == ""
    assert len(shell("delete", "--all", "--yes").splitlines()) == 4


def test_a_trigger_that_fails_to_say_when_is_listed_all_the_same(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> str:
        raise ValueError("no words")

    shell("add", "x", "--cron", "0 9 * * *")
    monkeypatch.setattr(CronTrigger, "describe", refuse)
    assert "a trigger that does not say when: no words" in shell("list")


@pytest.mark.slow
def test_an_id_may_be_shortened_until_it_may_mean_several(shell: Shell) -> None:
    for digit in "34":
        id = f"abcdef1{digit}-0000-4000-8000-000000000000"
        shell("add", "x", "--on-demand", "--id", id)
    [shown] = shell.json("show", "ABCDEF13")
    assert shown["id"].startswith("abcdef13")
    assert shell.json("show", "abcdef14-00")[0]["id"].startswith("abcdef14")
    assert "'abcdef1' may mean several" in shell.refusal("show", "abcdef1")
    assert "'x' may mean several" in shell.refusal("pause", "x")
    shell("add", "x", "--every", "1h", "--queue", "slow")
    told = shell.refusal("run", "x")
    assert " x  every hour, in the queue slow\n" in told
    assert " x  on demand, in the queue default\n" in told
    # With a dash at another place it is no beginning of any id.
    shell.refusal("show", "abc-def13", code=1)
    shell.refusal("show", "abcdef130000400080000000000000000", code=1)


@pytest.mark.slow
def test_more_than_one_is_changed_with_consent_only(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        shell("add", "x", "--on-demand")
    refused = shell.refusal("delete", "--name", "x")
    assert "to delete 2 definitions, say --yes" in refused
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    for answer, code in ((False, 1), (True, 0)):
        monkeypatch.setattr("typer.confirm", lambda *_, answer=answer, **__: answer)
        shell("pause", "--all", code=code)
        assert len(shell.json("list", "--state", "paused")) == 2 * answer
    assert len(shell.json("resume", "--queue", "default", "--yes")) == 2
    documents = shell.json("delete", "--all", "--yes")
    assert {each["answer"] for each in documents} == {"deleted"}


SCHEMA = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}
OPTIONS = (
    *("--queue", "mail", "--priority", "2", "--timeout", "10s", "--lock", "smtp"),
    *("--max-attempts", "3", "--retry-delay", "5s", "--overlap", "skip"),
    *("--expire-after", "1m", "--description", "Sends.", "--owner", "ann"),
    *("--schema", json.dumps(SCHEMA)),
)


@pytest.mark.slow
def test_types_are_declared_listed_and_deleted(either: Shell) -> None:
    said = either("types", "put", "send / 7", *OPTIONS)
    assert said.endswith("  send / 7, in the queue mail\n")
    [shown] = either.json("types", "show", "send / 7")
    assert shown["schema"] == SCHEMA
    assert (shown["retry"]["max_attempts"], shown["retry"]["delay"]) == (3, 5)
    assert (shown["timeout"], shown["expire_after"]) == (10, 60)
    assert (shown["overlap"], shown["owner"], shown["lock"]) == ("skip", "ann", "smtp")
    lines = either("types", "show", "send / 7")
    for line in ("runs            by workers", "timeout         10s"):
        assert f"{line}\n" in lines
    assert [each["type"] for each in either.json("types", "list")] == ["send / 7"]
    either("types", "put", "plain")
    assert "plain" in either("types", "list", "--limit", "1")
    assert either.errors == "there are more than 1: see --limit\n"
    [changed] = either.json("types", "put", "plain", "--queue", "other")
    assert changed["queue"] == "other"
    assert either("types", "delete", "plain") == "plain  deleted\n"
    either("types", "put", "plain")
    deleted = {"type": "plain", "answer": "deleted"}
    assert either.json("types", "delete", "plain") == [deleted]
    for words, code, told in (
        (["delete", "plain"], 1, "declare it by"),
        (["show", "plain"], 1, "declare it by"),
        (["put", "plain", "--priority", "9"], 2, "priority must be from 0 to 3"),
        (["put", "plain", "--schema", '{"type": 7}'], 2, "schema"),
    ):
        assert told in either.refusal("types", *words, code=code)
