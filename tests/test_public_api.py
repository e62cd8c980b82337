"""The public names are those that are listed, and importing them loads nothing more."""

from __future__ import annotations

import inspect
import os
import pydoc
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import go_scheduler
from go_scheduler import Store, errors, stores, testing, triggers
from go_scheduler.lazy_imports import on_demand
from go_scheduler.triggers.base import OWN_KINDS, find
from tests.patience import FAILED_AFTER

PACKAGES = [
    "go_scheduler",
    "go_scheduler.events",
    "go_scheduler.stores",
    "go_scheduler.triggers",
]
DATABASES = [
    ("go_scheduler.stores.cockroachdb", "CockroachDBStore"),
    ("go_scheduler.stores.postgresql", "PostgreSQLStore"),
    ("go_scheduler.stores.redis", "RedisStore"),
    ("go_scheduler.stores.sqlite", "SQLiteStore"),
]
NOT_LOADED = [
    *("alembic", "asyncpg", "hypothesis", "psycopg", "psycopg2", "pytest"),
    *("redis", "sqlalchemy", "sqlalchemy_cockroachdb", "sqlite3"),
    "go_scheduler.testing",
]
IN_A_NEW_PROCESS = """
import logging, sys, threading, warnings
warnings.simplefilter("error")
import {packages}
found = sorted({{*{not_loaded}}} & {{*sys.modules}})
assert not found, f"loaded: {{found}}"
names = logging.root.manager.loggerDict
for logger in [logging.root, *map(logging.getLogger, names)]:
    assert not logger.handlers, f"{{logger}} has handlers"
    assert logger is logging.root or logger.level == 0, f"{{logger}} has a level"
    assert logger.propagate, f"{{logger}} does not propagate"
assert logging.root.level == logging.WARNING
assert threading.active_count() == 1, "a thread was started"
"""


ON_DEMAND = [
    *("croniter", "dateutil", "icalendar", "importlib.metadata", "lark", "sqlalchemy"),
    *("go_scheduler.stores.opening", "go_scheduler.stores.sql"),
]
"""Packages that a program does without which has no use for them."""

SIMPLE_TRIGGERS = ["base", "local_time", "simple", "times", "words"]
"""All that is loaded of triggers for one that fires once."""

FIRES_ONCE = """
import sys
from datetime import UTC, datetime
from go_scheduler import ExecuteOnceTrigger, MemoryStore, Scheduler, TaskDefinition
scheduler = Scheduler(print, MemoryStore())
once = ExecuteOnceTrigger(datetime(2030, 1, 1, tzinfo=UTC))
scheduler.schedule(TaskDefinition(trigger=once))
print(*sys.modules)
"""
LOADS_A_KIND = """
import sys
from go_scheduler.triggers import UnknownTrigger, dump_trigger, load_trigger
daily = {"rule": "FREQ=DAILY", "timezone": "UTC"}
part = {"kind": "recurrence", "state": daily}
for kind, state, module in [
    ("cron", {"expression": "0 9 * * *", "timezone": "UTC"}, "cron"),
    ("any_of", {"triggers": [part]}, "recurrence"),
]:
    assert f"go_scheduler.triggers.{module}" not in sys.modules
    loaded = load_trigger(kind, state)
    assert not isinstance(loaded, UnknownTrigger), loaded
    assert dump_trigger(loaded)[0] == kind
    assert f"go_scheduler.triggers.{module}" in sys.modules
"""
TAKES_A_KIND = """
from go_scheduler import ConfigurationError, Trigger
try:
    class TheirCronTrigger(Trigger):
        kind = "cron"
except ConfigurationError as error:
    assert "go_scheduler.triggers.cron.CronTrigger" in str(error), error
else:
    raise AssertionError("it is not refused")
"""


def listed(package: str) -> list[str]:
    return list(import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_is_there_is_listed(package: str) -> None:
    # Modules are reached through the package once they are imported.
    module = import_module(package)
    public = {
        name
        for name in dir(module)
        if not name.startswith("_")
        and not isinstance(getattr(module, name), ModuleType)
    }
    assert public == {*listed(package)}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'Nothing'"):
        import_module(package).Nothing  # noqa: B018 - that is the point


@pytest.mark.parametrize(
    ("package", "home", "name"),
    [
        ("go_scheduler", "go_scheduler.events", "hears"),
        ("go_scheduler", "go_scheduler.stores", "open_store"),
        ("go_scheduler", "go_scheduler.triggers", "parse_phrase"),
        ("go_scheduler.stores", "go_scheduler", "CatchUp"),
        ("go_scheduler.triggers", "go_scheduler.testing", "TriggerSuite"),
        *[("go_scheduler", "go_scheduler.testing", each) for each in testing.__all__],
        *[("go_scheduler.stores", *each) for each in DATABASES],
    ],
)
def test_a_name_that_is_elsewhere_is_answered_by_its_module(
    package: str, home: str, name: str
) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from {package} import {name}")
    line = f"from {home} import {name}"
    assert str(caught.value) == f"{name} is in {home}: {line}"
    exec(line)


@pytest.mark.parametrize("package", PACKAGES)
def test_help_tells_of_every_public_name(package: str) -> None:
    text = pydoc.plain(pydoc.render_doc(import_module(package)))
    assert [each for each in listed(package) if each not in text] == []


def test_every_error_is_a_public_name() -> None:
    names = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert names <= {*go_scheduler.__all__}


def test_every_trigger_and_store_of_the_package_is_a_public_name() -> None:
    kinds = {each.__name__ for each in map(find, OWN_KINDS) if each is not None}
    assert len(kinds) > 9
    assert kinds <= {*triggers.__all__}
    # But for those of databases: to import them loads a driver.
    named = {name: getattr(stores, name) for name in stores.__all__}
    found = {
        name
        for name, value in named.items()
        if inspect.isclass(value) and issubclass(value, Store)
    }
    assert found <= {*go_scheduler.__all__}


def test_the_version_is_one_that_installers_understand() -> None:
    assert all(part.isdigit() for part in go_scheduler.__version__.split("."))


@pytest.mark.slow
def test_importing_loads_no_driver_and_no_test_tool_and_configures_no_logging() -> None:
    packages = ", ".join(PACKAGES)
    program = IN_A_NEW_PROCESS.format(packages=packages, not_loaded=NOT_LOADED)
    assert run(program) == ""


def run(program: str) -> str:
    # Coverage measures subprocesses too, and loads a driver in them.
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(go_scheduler.__file__).parents[1],
        env={key: value for key, value in os.environ.items() if "COV" not in key},
        capture_output=True,
        text=True,
        timeout=FAILED_AFTER,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_what_fires_once_in_memory_loads_no_other_triggers_and_what_they_need() -> None:
    loaded = run(FIRES_ONCE).split()
    assert sorted({*ON_DEMAND} & {*loaded}) == []
    prefix = "go_scheduler.triggers."
    of_triggers = [each for each in loaded if each.startswith(prefix)]
    assert sorted(of_triggers) == [prefix + each for each in SIMPLE_TRIGGERS]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [LOADS_A_KIND, TAKES_A_KIND], ids=["loaded when it is met", "is taken"]
)
def test_a_kind_whose_module_was_not_loaded(program: str) -> None:
    run(program)


@pytest.mark.parametrize("first", ["", "import go_scheduler.stores.cockroachdb"])
def test_a_start_writes_no_lines_of_other_packages_plugins(
    tmp_path: Path, first: str
) -> None:
    program = f"""
import logging
from go_scheduler.stores import open_store
logging.basicConfig(level=logging.INFO)
{first}
store = open_store("sqlite:///{tmp_path}/tasks.db")
store.initialize()
store.close()
# What the program does with Alembic itself is logged as it likes.
logging.getLogger("alembic.runtime.plugins").info("seen")
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "schema brought up to date" in ran.stderr
    assert "setup plugin" not in ran.stderr
    assert "INFO:alembic.runtime.plugins:seen" in ran.stderr


def test_a_name_whose_library_is_missing_says_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy.py").write_text("import no_such_library\n")
    (tmp_path / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path.parent)
    package = tmp_path.name
    monkeypatch.setitem(sys.modules, package, import_module(package))
    get, _ = on_demand(package, {"Worker": "needy"}, extra="http")
    with pytest.raises(ModuleNotFoundError) as caught:
        get("Worker")
    assert str(caught.value) == (
        "Worker needs the extra 'http' of go_scheduler, which brings no_such_library:"
        " in a checkout, pip install '.[http]'"
    )
    get, _ = on_demand(package, {"Worker": "needy"})
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        get("Worker")
