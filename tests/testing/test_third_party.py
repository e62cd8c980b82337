"""What others do with the testing kit works as the documentation shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import go_scheduler.testing
from go_scheduler.testing import stores
from go_scheduler.testing.machine import StoreMachine
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
SUITE = """
from collections.abc import Iterator

import pytest
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore as MyStore
from go_scheduler.testing import ManualClock, StoreMachine, StoreSuite


class TestMyStore(StoreSuite):
    @pytest.fixture
    def store(self, clock: ManualClock) -> Iterator[Store]:
        store = MyStore(clock=clock)
        store.initialize()
        yield store
        store.close()


class MyMachine(StoreMachine):
    def make_store(self, clock: ManualClock) -> Store:
        store = MyStore(clock=clock)
        store.initialize()
        return store


TestMyMachine = MyMachine.TestCase
"""
WITHOUT = """
import sys
from datetime import timedelta

sys.modules["{tool}"] = None
from go_scheduler.testing import InlineExecutor, ManualClock

ManualClock().advance(timedelta(seconds=1))
assert InlineExecutor().submit(int).done()
try:
    from go_scheduler.testing import {suite}
except ImportError as error:
    print(error)
"""


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=FAILED_AFTER,
    )


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugin = ["-p", "go_scheduler.testing.plugin", "-p", "no:cacheprovider"]
    strict = ["-q", "--strict-markers", "--strict-config", "-W", "error"]
    return run("-m", "pytest", *plugin, *strict, *options, folder=folder)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_suite_of_six_lines_runs_with_strict_markers(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    done = run_pytest(tmp_path, "-k", "TestMyStore")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed > 300


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_machine_of_a_few_lines_is_collected(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE)
    done = run_pytest(tmp_path, "--collect-only", "-k", "TestMyMachine")
    assert "TestMyMachine::runTest" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_suite_without_a_store_says_what_to_write(tmp_path: Path) -> None:
    suite = (
        "from go_scheduler.testing import StoreSuite\nclass TestMine(StoreSuite): ..."
    )
    (tmp_path / "test_mine.py").write_text(suite)
    done = run_pytest(tmp_path, "-k", "test_by_ids")
    assert "write a fixture `store(self, clock)` that yields an empty" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.slow
@pytest.mark.exhaustive
def test_of_a_store_that_ignores_the_clock_one_test_fails_and_says_so(
    tmp_path: Path,
) -> None:
    own = "\n    def test_that_takes_no_store(self):\n        pass\n\n\nclass MyMachine"
    suite = SUITE.replace("MyStore(clock=clock)", "MyStore()", 1)
    (tmp_path / "test_mine.py").write_text(suite.replace("\n\nclass MyMachine", own))
    done = run_pytest(tmp_path, "-k", "TestMyStore")
    assert "AssertionError: the store does not go by its clock=" in done.stdout
    # What takes no store passes.
    assert re.search(r"1 failed, \d passed, ", done.stdout)
    assert " skipped" in done.stdout


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_markers_of_the_suites_are_registered(tmp_path: Path) -> None:
    assert "@pytest.mark.slow" in run_pytest(tmp_path, "--markers").stdout


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_failing_assertion_of_the_suite_explains_itself(tmp_path: Path) -> None:
    broken = SUITE.replace(
        "class TestMyStore",
        "class Empty(MyStore):\n"
        "    def list_definitions(self, **_):\n"
        "        return []\n\n\n"
        "MyStore = Empty\n\n\n"
        "class TestMyStore",
    )
    (tmp_path / "test_mine.py").write_text(broken)
    done = run_pytest(tmp_path, "-k", "test_by_ids")
    assert "assert [] == [1, 3]" in done.stdout


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("tool", "suite"),
    [
        ("pytest", "StoreSuite"),
        ("pytest", "TriggerSuite"),
        ("hypothesis", "StoreMachine"),
    ],
)
def test_a_suite_without_its_tool_says_what_to_install(
    tmp_path: Path, tool: str, suite: str
) -> None:
    done = run("-c", WITHOUT.format(tool=tool, suite=suite), folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout.strip() == (
        f"go_scheduler.testing.{suite} needs the extra 'testing' of go_scheduler, which"
        f" brings {tool}"
    )


def test_the_public_names_are_sorted_and_all_there() -> None:
    names: Sequence[str] = go_scheduler.testing.__all__
    assert list(names) == sorted(names)
    assert all(getattr(go_scheduler.testing, name).__name__ == name for name in names)
    assert go_scheduler.testing.StoreSuite is stores.StoreSuite
    assert go_scheduler.testing.StoreMachine is StoreMachine


def test_another_module_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = "go_scheduler.testing.absent"
    monkeypatch.setitem(go_scheduler.testing._SUITES, "Absent", absent)
    with pytest.raises(ModuleNotFoundError, match=absent):
        go_scheduler.testing.Absent  # type: ignore[attr-defined]  # noqa: B018


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'StoreSweet'"):
        go_scheduler.testing.StoreSweet  # type: ignore[attr-defined]  # noqa: B018
