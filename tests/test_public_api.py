"""The public names are those that are listed, and importing them loads nothing more."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import go_scheduler
from go_scheduler import Store, errors, stores, triggers
from go_scheduler.errors import ConfigurationError
from go_scheduler.stores.base import TransactionalStore
from go_scheduler.stores.opening import open_store
from go_scheduler.triggers.base import _kinds

PACKAGES = ["go_scheduler", "go_scheduler.stores", "go_scheduler.triggers"]
DATABASES = [
    ("go_scheduler.stores.cockroachdb", "CockroachDBStore"),
    ("go_scheduler.stores.postgresql", "PostgreSQLStore"),
    ("go_scheduler.stores.sqlite", "SQLiteStore"),
]
NOT_LOADED = [
    "alembic",
    "asyncpg",
    "hypothesis",
    "psycopg",
    "psycopg2",
    "pytest",
    "sqlalchemy",
    "sqlalchemy_cockroachdb",
    "sqlite3",
    "go_scheduler.testing",
]
IN_A_NEW_PROCESS = """
import logging, sys, threading, warnings
warnings.simplefilter("error")
import {package}
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


def listed(package: str) -> list[str]:
    return list(import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_are_sorted_and_each_is_listed_once(package: str) -> None:
    names = listed(package)
    assert names == sorted(set(names))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_is_listed_is_there(package: str) -> None:
    module = import_module(package)
    for name in listed(package):
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_is_there_is_listed(package: str) -> None:
    # Modules are reached through the package once they are imported.
    public = {
        name
        for name, value in vars(import_module(package)).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == {*listed(package)}


def test_every_error_is_a_public_name() -> None:
    names = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception)
    }
    assert names <= {*go_scheduler.__all__}


def test_every_trigger_and_store_of_the_package_is_a_public_name() -> None:
    kinds = {
        each.__name__
        for each in _kinds.values()
        if each.__module__.startswith("go_scheduler.triggers.")
    }
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


@pytest.mark.parametrize(("module", "name"), DATABASES)
def test_the_store_of_a_database_is_where_it_is_documented(
    module: str, name: str
) -> None:
    store = getattr(import_module(module), name)
    assert issubclass(store, TransactionalStore)
    assert store.__module__ in {module, f"{module}.store"}
    assert store.__doc__


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_docstring(package: str) -> None:
    module = import_module(package)
    assert module.__doc__
    for name in listed(package):
        value = getattr(module, name)
        own = vars(value)["__doc__"] if inspect.isclass(value) else value.__doc__
        assert own, f"{name} says nothing"


def test_the_version_is_one_that_installers_understand() -> None:
    assert all(part.isdigit() for part in go_scheduler.__version__.split("."))


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_importing_loads_no_driver_and_no_test_tool_and_configures_no_logging(
    package: str,
) -> None:
    program = IN_A_NEW_PROCESS.format(package=package, not_loaded=NOT_LOADED)
    # Coverage measures subprocesses too, and loads a driver in them.
    env = {key: value for key, value in os.environ.items() if "COV" not in key}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(go_scheduler.__file__).parents[1],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def test_open_store_is_public() -> None:
    assert stores.open_store is open_store
    with pytest.raises(ConfigurationError):
        stores.open_store("nowhere")


def test_a_start_writes_no_lines_of_other_packages_plugins(tmp_path: Path) -> None:
    program = f"""
import logging
from go_scheduler.stores import open_store
logging.basicConfig(level=logging.INFO)
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
