"""The whole text of each statement, as the files beside this one have it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from go_scheduler.stores.__main__ import DOES, STORES, main, statements_of
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.testing.builders import claim, pending
from tests import servers

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "statements"
WRITE = "GO_SCHEDULER_WRITE_STATEMENTS"


def written(store: str) -> Mapping[str, str]:
    return {each.stem: each.read_text() for each in (FOLDER / store).glob("*.sql")}


@pytest.fixture(scope="module", autouse=True)
def files() -> None:
    """Write them anew, if asked to."""
    if os.environ.get(WRITE) != "1":
        return
    for store in STORES:
        for name in written(store):
            (FOLDER / store / f"{name}.sql").unlink()
        for name, text in made(store).items():
            (FOLDER / store / f"{name}.sql").write_text(text)


def made(store: str) -> Mapping[str, str]:
    return {name: f"{sql};\n" for name, sql in statements_of(store).items()}


@pytest.mark.parametrize("store", STORES)
def test_each_statement_is_the_one_in_its_file(store: str) -> None:
    assert written(store) == made(store), f"{WRITE}=1 writes the files anew"


def test_a_server_gets_the_statement_in_the_file(postgresql_url: str) -> None:
    servers.delete_all_rows(postgresql_url)
    executed: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    with servers.opened(postgresql_url, has_tables=True) as store:
        assert isinstance(store, PostgreSQLStore)
        # The first one looks for classes of priority as well.
        claim(store)
        pending(store)
        engine = store._database._engines[Lane.BY_TIME]
        event.listen(engine, "before_cursor_execute", note)
        claim(store, limit=7)
        event.remove(engine, "before_cursor_execute", note)
    as_sent = re.sub(r":(\w+)", r"%(\1)s", written("postgresql")["claim"])
    as_sent = as_sent.replace("%(limit)s", "7").removesuffix(";\n")
    assert re.sub(r"::\w+", "", executed[0]) == as_sent


def test_a_statement_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--show", "claim", "--store", "postgresql"])
    printed = capsys.readouterr().out
    assert f"{printed.rstrip()};\n" == written("postgresql")["claim"]


def test_it_is_said_of_each_statement_what_it_does_and_of_no_other() -> None:
    assert {*DOES} == {name for store in STORES for name in statements_of(store)}


@pytest.mark.parametrize(
    ("url", "store"),
    [
        ("sqlite:///x.db", "sqlite"),
        ("postgres://host/database", "postgresql"),
        ("PostgreSQL+psycopg://host/database", "postgresql"),
        ("cockroachdb", "cockroachdb"),
    ],
)
def test_a_store_is_also_named_by_its_url(
    url: str, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--show", "renew", "--store", url])
    printed = capsys.readouterr().out
    assert f"{printed.rstrip()};\n" == written(store)["renew"]


def test_the_help_says_what_a_store_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "the kind of store, or the URL of one: postgresql," in " ".join(
        capsys.readouterr().out.split()
    )


def test_without_a_name_the_names_are_printed() -> None:
    command = [sys.executable, "-m", "go_scheduler.stores", "--store", "sqlite"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [name for name, _ in lines] == [*statements_of("sqlite")]
    assert all(does for _, does in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "sqlite", "--show", "no"], "no statement of sqlite is called no"),
        (["--store", "memory", "--show", "claim"], "invalid choice: 'memory'"),
    ],
)
def test_an_unknown_name_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
