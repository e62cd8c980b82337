"""Everything shown is run: the README's program, the examples, and every snippet.

A page's ``python`` blocks are one program: they run one after the other in one
namespace, and the test server stands for the PostgreSQL they connect to. Where they
define tests, those are run by pytest. A block with the title of a file is an excerpt of
it, or all of it. ``sql`` blocks run on the databases that their title names, and the
package's own commands from a shell.
"""

from __future__ import annotations

import ast
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import make_url

from go_scheduler.stores import open_store
from go_scheduler.testing import StoreSuite, TriggerSuite
from go_scheduler.triggers import base
from tests.conftest import SHARED, SQL
from tests.patience import FAILED_AFTER
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler import Store, Trigger
    from go_scheduler.testing import ManualClock

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Those in other languages, by the languages of their blocks.
ELSEWHERE = {"javascript": "http_worker.mjs", "go": "http_worker.go"}
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
TRANSACTIONAL = [each for each in EXAMPLES if each.name.startswith("transactional_")]
# Those that need a server and packages of the application's own.
IN_APPLICATIONS = [each for each in EXAMPLES if each.name.startswith("web_")]
SHOWN_URL = re.compile(
    r"postgresql(\+psycopg)?://user:password@host:5432/database(?=[\"' ])"
)
DATABASES = {
    "SQLite": "sqlite",
    "PostgreSQL": "postgresql",
    "CockroachDB": "cockroachdb",
}
INPUT = {"reminders.py": "soon\nin 2s drink water\nin 500ms look up\n"}
BLOCK = re.compile(
    r"^( *)```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL
)
PATIENT = {"AIOSMTPD_CONTROLLER_TIMEOUT": str(FAILED_AFTER)}
"""How long a server that an example has starts at most."""


def over(name: str, files: Sequence[Path]) -> pytest.MarkDecorator:
    """Have a test run for each of these files."""
    return pytest.mark.parametrize(name, files, ids=lambda each: each.name)


def run_python(
    *arguments: str,
    cwd: Path,
    text: str = "",
    logs_a_failure: bool = False,
    may_miss: bool = False,
) -> str:
    """What a Python process printed, with other numbers of milliseconds.

    Args:
        arguments: Those of the process.
        cwd: Where it runs.
        text: What it reads.
        logs_a_failure: Whether one of its runs is to fail.
        may_miss: Whether it may say that it was too late for fire times before it.
    """
    ran = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), **PATIENT},
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    failures = ran.stderr.count("has failed and runs again in")
    lines = ran.stderr.splitlines()
    said = [each for each in lines if not (may_miss and " is not run: " in each)]
    assert failures if logs_a_failure else not said, ran.stderr
    return normalised(ran.stdout)


def normalised(output: str) -> str:
    return re.sub(r"\d+\.\d+ ms", "0.00 ms", output).strip()


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """The title, if any, and the text of a page's blocks."""
    found = BLOCK.findall(page.read_text())
    return [
        (title, dedent(text) if indent else text)
        for indent, kind, title, text in found
        if kind == language
    ]


def whole(path: str) -> str:
    """What stands on a page for all of a file, which is put there by the build."""
    return f'--8<-- "{path}"\n'


def program(page: Path) -> str:
    return "\n".join(text for title, text in blocks(page, "python") if not title)


def docstring(example: Path) -> str:
    return ast.get_docstring(ast.parse(example.read_text())) or ""


def shown_output(example: Path) -> str:
    """The indented block at the end of an example's docstring."""
    return normalised(dedent(docstring(example).rpartition("::\n\n")[2]))


def runnable(page: Path, request: pytest.FixtureRequest) -> str:
    """A page's program, with the test server for the PostgreSQL it connects to."""
    text = program(page)
    if SHOWN_URL.search(text) is None:
        return text
    url = request.getfixturevalue("empty_database_url")()
    return SHOWN_URL.sub(lambda shown: for_sqlalchemy(url) if shown[1] else url, text)


def for_sqlalchemy(url: str) -> str:
    """The same URL with the driver, which SQLAlchemy has another default for."""
    return re.sub(r"^(postgresql|cockroachdb):", r"\1+psycopg:", url)


def says_so(example: Path) -> bool:
    """Whether an example says that it logs the failure of a run."""
    return "logged" in docstring(example)


def has_tests(page: Path) -> bool:
    return (
        re.search(r"^(class Test|def test_)", program(page), re.MULTILINE) is not None
    )


@pytest.mark.documentation
@over("example", [each for each in EXAMPLES if each not in IN_APPLICATIONS])
def test_an_example_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    text = INPUT.get(example.name, "")
    printed = run_python(
        str(example), cwd=tmp_path, text=text, logs_a_failure=says_so(example)
    )
    assert printed == shown_output(example)


@pytest.mark.parametrize("engine", ["memory", *SHARED], indirect=True)
@pytest.mark.slow
def test_hello_prints_what_it_says_on_each_store(
    store_url: str, tmp_path: Path
) -> None:
    example = ROOT / "examples/hello.py"
    assert run_python(str(example), store_url, cwd=tmp_path) == shown_output(example)


@pytest.mark.documentation
def test_hello_makes_the_file_that_its_url_names(tmp_path: Path) -> None:
    example = ROOT / "examples/hello.py"
    command = "python examples/hello.py sqlite:///hello.db"
    assert command in README.read_text()
    assert "sqlite:///hello.db" in docstring(example)
    for _ in range(2):  # what one run leaves behind does not disturb the next
        printed = run_python(str(example), "sqlite:///hello.db", cwd=tmp_path)
        assert printed == shown_output(example)
    assert (tmp_path / "hello.db").exists()


@pytest.mark.documentation
@pytest.mark.parametrize("engine", SQL)
@over("example", TRANSACTIONAL)
def test_an_example_on_transactions_prints_what_it_says_on_each_database(
    example: Path, engine: str, store_url: str, tmp_path: Path
) -> None:
    url = for_sqlalchemy(store_url)
    printed = run_python(
        str(example), url, cwd=tmp_path, logs_a_failure=says_so(example)
    )
    assert printed == shown_output(example)


@pytest.mark.documentation
@over("example", IN_APPLICATIONS)
def test_an_example_in_an_application_prints_what_it_says(
    example: Path, empty_database_url: Callable[[], str], tmp_path: Path
) -> None:
    for package in ("asyncpg", "django", "fastapi", "flask", "httpx"):
        pytest.importorskip(package)
    # It makes a table of its own, which is no other test's.
    url = empty_database_url()
    assert run_python(str(example), url, cwd=tmp_path) == shown_output(example)


@pytest.mark.documentation
@pytest.mark.parametrize("name", ["django", "flask"])
def test_an_example_in_an_application_takes_memory_if_no_url_is_given(
    name: str, tmp_path: Path
) -> None:
    pytest.importorskip(name)
    example = ROOT / f"examples/web_{name}.py"
    assert run_python(str(example), cwd=tmp_path) == shown_output(example)


@over("example", IN_APPLICATIONS)
def test_the_page_of_examples_says_what_an_example_in_an_application_needs(
    example: Path,
) -> None:
    page = (ROOT / "docs/examples.md").read_text()
    before = page.partition(f'```python title="examples/{example.name}"')[0]
    installed = before.rpartition("$ pip install ")[2].splitlines()[0].split()
    text = example.read_text()
    own = {"asyncpg", "django", "fastapi", "flask", "httpx", "uvicorn"}
    assert {each for each in own if each in text} == own & {*installed}


@pytest.mark.slow
def test_the_reminders_are_also_taken_from_the_arguments(tmp_path: Path) -> None:
    example = str(ROOT / "examples/reminders.py")
    assert run_python(example, "in 10ms look up", cwd=tmp_path) == "look up"


@pytest.mark.slow
def test_the_readmes_program_prints_what_it_says(tmp_path: Path) -> None:
    output = next(text for title, text in blocks(README, "text") if not title)
    [(_, shown), *_] = blocks(README, "python")
    assert run_python("-c", shown, cwd=tmp_path) == output.strip()


def test_the_readme_shows_what_an_example_prints() -> None:
    [(path, shown)] = [each for each in blocks(README, "text") if each[0]]
    assert shown in shown_output(ROOT / path) + "\n"


def test_the_readme_has_two_screens() -> None:
    assert len(README.read_text().splitlines()) <= 190


@pytest.mark.documentation
def test_the_readmes_durable_program_has_one_definition_after_three_starts(
    tmp_path: Path,
) -> None:
    [_, (_, durable), *_] = blocks(README, "python")
    for _ in range(3):
        # On a slow machine it begins more than ten seconds after the last one.
        run_python("-c", durable, cwd=tmp_path, may_miss=True)
    with closing(open_store(f"sqlite:///{tmp_path}/tasks.db")) as store:
        assert len(store.select_definitions()) == 1


@pytest.mark.documentation
@over("page", [README, *PAGES])
def test_the_snippets_of_a_page_run(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if program(page):
        # A store that a program keeps open until its end is no mistake.
        strict = ("-W", "error", "-W", "ignore:unclosed database:ResourceWarning")
        run_python(*strict, "-c", runnable(page, request), cwd=tmp_path)


@pytest.mark.parametrize("engine", SQL)
@over("page", [each for each in PAGES if blocks(each, "sql")])
def test_the_sql_of_a_page_runs_on_the_databases_it_is_for(
    page: Path, engine: str, store_url: str
) -> None:
    for title, text in blocks(page, "sql"):
        named = {each for name, each in DATABASES.items() if name in title}
        assert named, f"say in its title which database this is for: {text}"
        if engine in named:
            run_sql(store_url, text)


def run_sql(url: str, text: str) -> None:
    """Run statements, and undo what can be undone."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file:
            file.executescript(text)
        return
    with psycopg.connect(libpq(url)) as connection:
        # There are statements that CockroachDB takes in no transaction.
        connection.autocommit = url.startswith("cockroachdb")
        connection.execute(text.encode())
        connection.rollback()


@pytest.mark.documentation
@over("page", [README, *PAGES])
def test_the_commands_of_the_package_on_a_page_run(page: Path, tmp_path: Path) -> None:
    commands = re.findall(r"^\$ (python -m go_scheduler.+)$", page.read_text(), re.M)
    for command in commands:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=env)
        assert any(each.read_text() for each in tmp_path.iterdir()), command


@pytest.mark.documentation
@over("page", [each for each in PAGES if has_tests(each)])
def test_the_tests_of_a_page_pass(page: Path, tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text(program(page))
    arguments = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert " passed" in run_python(*arguments, "test_page.py", cwd=tmp_path)


@over("page", [README, *PAGES])
def test_an_excerpt_is_part_of_its_file(page: Path) -> None:
    for title, text in blocks(page, "python"):
        if title and text != whole(title):
            assert text in (ROOT / title).read_text(), title


@over("example", EXAMPLES)
def test_an_example_is_on_the_page_of_examples(example: Path) -> None:
    path = f"examples/{example.name}"
    assert (path, whole(path)) in blocks(ROOT / "docs/examples.md", "python")


@pytest.mark.parametrize("language", ELSEWHERE)
def test_an_example_in_another_language_is_there_too(language: str) -> None:
    path = f"examples/{ELSEWHERE[language]}"
    assert (path, whole(path)) in blocks(ROOT / "docs/examples.md", language)


@over("example", EXAMPLES)
def test_an_example_says_what_it_shows_and_is_short(example: Path) -> None:
    assert "::\n\n" in docstring(example)
    assert len(example.read_text().splitlines()) <= 285


def loaded(name: str) -> Any:
    """The module of an example."""
    spec = spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestOwnTrigger(TriggerSuite):
    """The example of a trigger of one's own keeps every promise."""

    @pytest.fixture(params=[0, 17])
    def trigger(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> Trigger:
        monkeypatch.setattr(base, "_kinds", {**base._kinds})
        module = loaded("own_trigger")
        monkeypatch.setitem(sys.modules, "own_trigger", module)  # to be pickled
        trigger: Trigger = module.WorkingDayTrigger(hour=request.param)
        return trigger


@pytest.mark.documentation
class TestOwnStore(StoreSuite):
    """The example of a store of one's own keeps every promise."""

    @pytest.fixture
    def store(self, clock: ManualClock, tmp_path: Path) -> Iterator[Store]:
        store: Store = loaded("own_store").FileStore(tmp_path / "tasks.json", clock)
        store.initialize()
        yield store
        store.close()


def test_what_a_store_kept_in_its_file_is_there_for_another(tmp_path: Path) -> None:
    module = loaded("own_store")
    path = tmp_path / "tasks.json"
    one, other = module.FileStore(path), module.FileStore(path)
    trigger = module.ExecuteOnceTrigger(one.now())
    [stored] = one.put_definitions([module.TaskDefinition(trigger=trigger)]).definitions
    assert other.get_definition(stored.id) == stored
