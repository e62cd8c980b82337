"""The documentation has every public name, error and setting, and says the defaults."""

from __future__ import annotations

import ast
import inspect
import re
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler import Scheduler, TaskDefinition, errors, events, stores
from go_scheduler.events import DefinitionEvent, Event, InstanceEvent, RequestEvent
from go_scheduler.handlers.registry import HandlerRegistry, Task
from go_scheduler.health import Health
from go_scheduler.stores import Store, opening, rules
from go_scheduler.stores.base import TransactionalStore
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.redis import RedisStore
from go_scheduler.stores.sql.schema import schema_sql
from go_scheduler.stores.sql.tables import metadata
from go_scheduler.stores.sqlite.store import SQLiteStore

if TYPE_CHECKING:
    from sqlalchemy import Table

ROOT = Path(__file__).parents[1]
REFERENCE = (ROOT / "docs/reference.md").read_text()
OPERATING = (ROOT / "docs/operating.md").read_text()
MONITORING = (ROOT / "docs/monitoring.md").read_text()
SCHEMA = (ROOT / "docs/schema.md").read_text()
TABLES = (ROOT / "docs/tables.md").read_text()
EVENTS = (ROOT / "docs/events.md").read_text()
COMING_FROM = "".join(
    (ROOT / f"docs/coming-from{each}.md").read_text() for each in ("", "-go")
)
STORES = (ROOT / "docs/stores.md").read_text()
WRITE_A_STORE = (ROOT / "docs/write-a-store.md").read_text()
README = (ROOT / "README.md").read_text()
AGENTS = (ROOT / "docs/for-agents.md").read_text()
LLMS = (ROOT / "docs/llms.txt").read_text()
RULES = "go_scheduler.stores.rules"
PACKAGES = (
    "go_scheduler",
    "go_scheduler.stores",
    "go_scheduler.triggers",
    "go_scheduler.testing",
    "go_scheduler.events",
    "go_scheduler.audit",
    "go_scheduler.doctor",
    "go_scheduler.dashboard",
    "go_scheduler.simulation",
)
BASES = (Event, DefinitionEvent, InstanceEvent, RequestEvent)
DATABASES = {
    "CockroachDB": CockroachDBStore,
    "PostgreSQL": PostgreSQLStore,
    "Redis": RedisStore,
    "SQLite": SQLiteStore,
}
NOT_OURS = ("timedelta", "subprocess.")
UNITS = {"day": 86_400, "minute": 60, "second": 1}


def public_names() -> list[tuple[str, str]]:
    return [(each, name) for each in PACKAGES for name in import_module(each).__all__]


def settings() -> list[inspect.Parameter]:
    return list(inspect.signature(Scheduler).parameters.values())


def defaults(page: str) -> dict[str, str]:
    """Of each setting its default, as the page has it."""
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", page, re.MULTILINE))


def section(page: str, title: str) -> str:
    """What a page has under a heading."""
    [text] = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.M | re.S)
    return str(text)


def named_between(begin: str, end: str) -> set[str]:
    """The names between two places of the page on how to write a store."""
    start, stop = map(WRITE_A_STORE.index, (begin, end))
    return {*re.findall(r"`(\w+)`", WRITE_A_STORE[start:stop])}


def options(name: str) -> list[tuple[str, inspect.Parameter]]:
    """A store's arguments, but for those that the page has at the PostgreSQL store."""
    given = inspect.signature(DATABASES[name]).parameters
    if name == "CockroachDB":
        inherited = inspect.signature(PostgreSQLStore).parameters
        given = {key: given[key] for key in given if key not in inherited}  # type: ignore[assignment]
    return [(name, each) for each in given.values()]


def in_words(default: object) -> str:
    if is_dataclass(default):
        return f"{type(default).__name__}()"
    if not isinstance(default, timedelta):
        return str(default).replace("'", '"')
    seconds = default.total_seconds()
    unit, size = next(each for each in UNITS.items() if seconds % each[1] == 0)
    count = round(seconds / size)
    return f"{count} {unit}{'s' if count > 1 else ''}"


@pytest.mark.parametrize(("package", "name"), public_names())
def test_every_public_name_is_in_the_reference(package: str, name: str) -> None:
    # What is also in go_scheduler is documented there.
    shown = {f"::: {package}.{name}", f"::: go_scheduler.{name}"}
    assert shown & {*REFERENCE.splitlines()}, f"docs/reference.md lacks {name}"


@pytest.mark.parametrize("setting", settings(), ids=lambda each: each.name)
def test_every_setting_is_explained_with_its_default(
    setting: inspect.Parameter,
) -> None:
    table = defaults(OPERATING)
    assert setting.name in table, f"docs/operating.md lacks {setting.name}"
    if setting.default not in (None, inspect.Parameter.empty):
        assert table[setting.name].strip("`") == in_words(setting.default)


@pytest.mark.parametrize("name", [each.name for each in fields(Health)])
def test_every_field_of_the_health_is_explained(name: str) -> None:
    assert f"| `{name}` |" in MONITORING


@pytest.mark.parametrize(
    ("name", "option"), [each for name in DATABASES for each in options(name)]
)
def test_every_argument_of_a_store_is_explained_with_its_default(
    name: str, option: inspect.Parameter
) -> None:
    table = defaults(section(STORES, name))
    assert option.name in table, f"docs/stores.md lacks {option.name} of {name}"
    if option.default not in (None, inspect.Parameter.empty):
        assert table[option.name] == in_words(option.default)


SECOND_NAMES = ("postgres", "rediss", "redis+cluster", "redis+sentinel")


@pytest.mark.parametrize(
    "scheme",
    # Second names are told in the sections of their stores.
    ["memory", *(each for each in opening._OWN if each not in SECOND_NAMES)],
)
def test_every_scheme_of_a_url_is_in_the_tables_of_stores(scheme: str) -> None:
    for page in (README, STORES):
        assert re.search(rf"^\| .*Store`.* \| `{scheme}://", page, re.MULTILINE), scheme


@pytest.mark.parametrize("kind", DATABASES.values())
def test_the_stores_of_databases_are_in_the_reference(kind: type[Store]) -> None:
    where = kind.__module__.removesuffix(".store")
    assert getattr(import_module(where), kind.__name__) is kind
    assert f"::: {where}.{kind.__name__}" in REFERENCE.splitlines()
    assert kind.__doc__


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda each: each.name)
def test_every_column_is_explained(table: Table) -> None:
    [rows] = re.findall(rf"^\| `{table.name}` \|.*\n((?:\|.*\n)+)", TABLES, re.M)
    firsts = " ".join(line.split("|")[1] for line in rows.splitlines())
    assert {*re.findall(r"`(\w+)`", firsts)} == {*table.columns.keys()}


def test_the_rights_that_are_shown_are_for_every_table() -> None:
    rights = r"UPDATE, DELETE\s+ON ([\w,\s]+?)\s+TO scheduler;"
    [granted] = re.findall(rights, SCHEMA)
    assert {*re.split(r",\s+", granted)} == {*metadata.tables}


def test_what_a_store_creates_is_counted_on_its_page() -> None:
    creates = r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)"
    made = re.findall(creates, schema_sql("postgresql"))
    tasks = [each for each in made if each.startswith("task_")]
    assert (len(made), len(tasks)) == (14, 12)
    assert "**What it creates**: fourteen tables" in STORES
    assert "Twelve begin with `task_`" in STORES
    assert "the same fourteen tables" in STORES


def test_every_method_that_a_store_has_to_have_is_named_by_a_step() -> None:
    assert Store.__abstractmethods__ <= named_between("## Step 3", "## Step 7")


def test_the_rules_that_a_store_in_memory_uses_are_named_for_their_steps() -> None:
    [table] = re.findall(r"^\| for \| rules \|\n((?:\|.*\n)+)", WRITE_A_STORE, re.M)
    named = {*re.findall(r"`(\w+)`", table)} - {*dir(Store)}
    used = set[str]()
    for each in (ROOT / "go_scheduler/stores/memory").glob("*.py"):
        for node in ast.walk(ast.parse(each.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == RULES:
                used |= {name.name for name in node.names}
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "rules":
                used.add(node.attr)
    # What a caller passes or is answered is in the reference of the interface.
    assert named == used - {*stores.__all__}
    assert named <= {*vars(rules)}


def test_all_that_a_store_around_another_one_hands_on_is_on_its_page() -> None:
    named = named_between("**A store around another one**", "## Step 2")
    public = {each for each in dir(TransactionalStore) if not each.startswith("_")}
    # Of the attributes only the clock is none of the class.
    handed_on = public - Store.__abstractmethods__ | {"clock"}
    assert named == handed_on | {"TransactionalStore"}


def test_the_reference_says_how_many_triggers_are_in_the_package_itself() -> None:
    shown = re.findall(r"^::: (.+)$", section(REFERENCE, "Triggers"), re.MULTILINE)
    own = [each for each in shown if each.rpartition(".")[0] == "go_scheduler"]
    assert own == shown[: len(own)]
    assert f"The first { {5: 'five', 6: 'six', 7: 'seven'}[len(own)] } are" in REFERENCE


def test_the_reference_draws_the_tree_of_the_errors() -> None:
    branch = re.compile(r"^([│ ]*[├└]── \w+)(?: +(\(\w+\)))?", re.MULTILINE)
    drawn = branch.findall(errors.__doc__ or "")
    assert len(drawn) > 9
    assert branch.findall(REFERENCE) == drawn


@pytest.mark.parametrize("name", ["triggers", "stores"])
def test_the_table_of_a_page_has_what_there_is(name: str) -> None:
    package = import_module(f"go_scheduler.{name}")
    page = (ROOT / f"docs/{name}.md").read_text()
    abstract = {"JoinedStore", "Store", "TransactionalStore"}
    abstract |= {"Trigger", "UnknownTrigger"}
    for each in {*package.__all__} - abstract:
        if not each.endswith(("Store", "Trigger")):
            continue
        assert re.search(rf"^\| [^|]*`{each}`", page, re.MULTILINE), each


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def event_classes() -> list[type[Event]]:
    named = [getattr(events, name) for name in events.__all__]
    classes = [each for each in named if inspect.isclass(each)]
    return [each for each in classes if issubclass(each, Event) and each not in BASES]


@pytest.mark.parametrize("kind", event_classes(), ids=lambda each: each.__name__)
def test_every_event_is_explained_with_its_fields(kind: type[Event]) -> None:
    [row] = re.findall(rf"^\| `{kind.__name__}` \| .+$", EVENTS, re.MULTILINE)
    shared = {each.name for base in BASES for each in fields(base)}
    for field in fields(kind):
        assert f"`{field.name}`" in row or field.name in shared, field.name


def written_instead() -> list[ast.Call]:
    """The calls in the tables for those who come from elsewhere, as they are here."""
    rows = re.findall(r"^\| .+ \| (.+) \|$", COMING_FROM, re.MULTILINE)
    calls = {}
    for code in re.findall(r"`([^`]+)`", " ".join(rows)):
        # Part of a statement, such as an argument, is no program.
        with suppress(SyntaxError):
            for each in ast.walk(ast.parse(code.lstrip("@"))):
                if isinstance(each, ast.Call) and not isinstance(each.func, ast.Call):
                    calls[ast.unparse(each)] = each
    return [each for text, each in calls.items() if not text.startswith(NOT_OURS)]


@pytest.mark.parametrize("call", written_instead(), ids=ast.unparse)
def test_what_is_to_be_written_instead_can_be_written(call: ast.Call) -> None:
    ours = {"replace": replace}
    for owner in (Task, TaskDefinition, HandlerRegistry, Scheduler):
        ours |= {name: getattr(owner, name) for name in dir(owner)}
    ours |= {name: getattr(import_module(each), name) for each, name in public_names()}
    called = ours[ast.unparse(call.func).rpartition(".")[2]]
    given = {each.arg: None for each in call.keywords if each.arg is not None}
    args = [each for each in call.args if ast.unparse(each) != "..."]
    inspect.signature(called).bind_partial(*args, **given)


SIGNATURES = re.search(
    r'^```text title="signatures"\n(.*?)^```$', AGENTS, re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("line", SIGNATURES[1].splitlines() if SIGNATURES else ())
def test_the_signatures_for_agents_are_those_of_the_package(line: str) -> None:
    [function] = ast.parse(f"def {line}: ...").body
    assert isinstance(function, ast.FunctionDef)
    ours: dict[str, object] = {"open_store": opening.open_store}
    ours |= {name: getattr(import_module(each), name) for each, name in public_names()}
    called = ours.get(function.name) or getattr(Scheduler, function.name)
    assert callable(called)
    parameters = inspect.signature(called).parameters
    for each in (*function.args.args, *function.args.kwonlyargs):
        assert each.arg in parameters, each.arg
    kinds = {each: parameters[each.arg].kind for each in function.args.args}
    assert inspect.Parameter.KEYWORD_ONLY not in kinds.values()


def test_each_page_is_in_the_list_for_agents() -> None:
    listed = re.findall(r"^- \[.+\]\((.+)/\)$", LLMS, re.MULTILINE)
    pages = {each.stem for each in (ROOT / "docs").glob("*.md")}
    assert {each.replace(".", "index") for each in listed} == pages
