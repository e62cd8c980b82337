"""The documentation has every public name, error and setting, and says the defaults."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from go_scheduler import Scheduler
from go_scheduler.health import Health

ROOT = Path(__file__).parents[1]
REFERENCE = (ROOT / "docs/reference.md").read_text()
OPERATING = (ROOT / "docs/operating.md").read_text()
README = (ROOT / "README.md").read_text()
PACKAGES = (
    "go_scheduler",
    "go_scheduler.stores",
    "go_scheduler.triggers",
    "go_scheduler.testing",
)
UNITS = {"day": 86_400, "minute": 60, "second": 1}


def public_names() -> list[tuple[str, str]]:
    return [(each, name) for each in PACKAGES for name in import_module(each).__all__]


def settings() -> list[inspect.Parameter]:
    return list(inspect.signature(Scheduler).parameters.values())


def settings_table() -> dict[str, str]:
    """Of each setting its default, as the page has it."""
    found = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", OPERATING, re.MULTILINE)
    return dict(found)


def in_words(default: object) -> str:
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


def test_what_the_reference_shows_exists() -> None:
    for path in re.findall(r"^::: (.+)$", REFERENCE, re.MULTILINE):
        module, name = path.rsplit(".", 1)
        assert hasattr(import_module(module), name), path


@pytest.mark.parametrize("setting", settings(), ids=lambda each: each.name)
def test_every_setting_is_explained_with_its_default(
    setting: inspect.Parameter,
) -> None:
    table = settings_table()
    assert setting.name in table, f"docs/operating.md lacks {setting.name}"
    if setting.default not in (None, inspect.Parameter.empty):
        assert table[setting.name].strip("`") == in_words(setting.default)


@pytest.mark.parametrize("name", [each.name for each in fields(Health)])
def test_every_field_of_the_health_is_explained(name: str) -> None:
    assert f"| `{name}` |" in OPERATING


@pytest.mark.parametrize("name", ["triggers", "stores"])
def test_the_readmes_tables_have_what_there_is(name: str) -> None:
    package = import_module(f"go_scheduler.{name}")
    abstract = {"Store", "Trigger", "UnknownTrigger"}
    for each in {*package.__all__} - abstract:
        if not each.endswith(("Store", "Trigger")):
            continue
        assert re.search(rf"^\| `{each}\b", README, re.MULTILINE), each


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_readme_has_a_program_within_fifteen_lines() -> None:
    assert "```python" in README.splitlines()[:15]
