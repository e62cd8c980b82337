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


WITHOUT_A_STORE = """
from go_scheduler.testing import StoreSuite
class TestMine(StoreSuite): ...
"""
WITHOUT_THE_CLOCK = SUITE.replace("MyStore(clock=clock)", "MyStore()", 1).replace(
    "\n\nclass MyMachine",
    "\n    def test_that_takes_no_store(self):\n        pass\n\n\nclass MyMachine",
)
EMPTY = SUITE.replace(
    "class TestMyStore",
    "from go_scheduler.stores import Page\n\n\n"
    "class Empty(MyStore):\n"
    "    def select_definitions(self, *_, **__):\n"
    "        return Page()\n\n\n"
    "MyStore = Empty\n\n\n"
    "class TestMyStore",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("suite", "options", "printed"),
    [
        pytest.param(SUITE, ["-k", "TestMyStore"], r"^[3-9]\d\d passed", id="a suite"),
        pytest.param(
            SUITE,
            ["--collect-only", "-k", "TestMyMachine"],
            "TestMyMachine::runTest",
            id="a machine",
        ),
        pytest.param(
            WITHOUT_A_STORE,
            ["-k", "test_by_ids"],
            r"write a fixture `store\(self, clock\)` that yields an empty",
            id="a suite without a store",
        ),
        pytest.param(
            WITHOUT_THE_CLOCK,
            ["-k", "TestMyStore"],
            # What takes no store passes.
            r"AssertionError: the store does not go by its clock=[^$]*"
            r"1 failed, \d passed, .* skipped",
            id="a store that ignores the clock",
        ),
        pytest.param(
            EMPTY, ["-k", "test_by_ids"], r"assert \[\] == \[1, 3\]", id="a failure"
        ),
        pytest.param("", ["--markers"], "@pytest.mark.slow", id="the markers"),
    ],
)
def test_a_suite_of_six_lines_says_what_there_is_to_say(
    tmp_path: Path, suite: str, options: Sequence[str], printed: str
) -> None:
    (tmp_path / "test_mine.py").write_text(suite)
    plugin = ["-p", "go_scheduler.testing.plugin", "-p", "no:cacheprovider"]
    strict = ["-q", "--strict-markers", "--strict-config", "-W", "error"]
    done = run("-m", "pytest", *plugin, *strict, *options, folder=tmp_path)
    assert re.search(printed, done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "Traceback" not in done.stdout


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
        f" brings {tool}: in a checkout, pip install '.[testing]'"
    )


def test_another_module_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = "go_scheduler.testing.absent"
    monkeypatch.setitem(go_scheduler.testing._SUITES, "Absent", absent)
    with pytest.raises(ModuleNotFoundError, match=absent):
        go_scheduler.testing.Absent  # type: ignore[attr-defined]  # noqa: B018
