"""The classes of triggers by their kinds, by which a stored trigger is found again."""

from __future__ import annotations

import threading
from importlib import import_module
from types import MemberDescriptorType
from typing import TYPE_CHECKING

from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.triggers.base import Trigger

ENTRY_POINTS = "go_scheduler.triggers"

OWN_KINDS: Mapping[str, str] = {
    "all_of": "go_scheduler.triggers.combining.any_all",
    "any_of": "go_scheduler.triggers.combining.any_all",
    "cron": "go_scheduler.triggers.cron.cron_trigger",
    "delay": "go_scheduler.triggers.delay",
    "except": "go_scheduler.triggers.combining.excluding",
    "interval": "go_scheduler.triggers.interval",
    "limited": "go_scheduler.triggers.combining.limited",
    "on_demand": "go_scheduler.triggers.on_demand",
    "once": "go_scheduler.triggers.execute_once",
    "only": "go_scheduler.triggers.combining.excluding",
    "recurrence": "go_scheduler.triggers.recurrence.recurrence_trigger",
}
"""The modules of this package's own kinds, imported when a kind is met."""

KIND_IS_A_FIELD = (
    ".kind is a field of the dataclass: annotate it as ClassVar[str], or not at all"
)
"""What is said of a class after its name."""

_kinds: dict[str, type[Trigger]] = {}
_imported: set[str] = set()
_announced = threading.Event()
_loading: set[int] = set()
"""The threads that import what is announced."""
_broken: dict[str, str] = {}


def register(cls: type[Trigger], kind: object) -> None:
    """Note the class of a kind.

    Raises:
        ConfigurationError: The kind is no name, or another class has it.
    """
    # That is what a dataclass with slots makes of its fields.
    if isinstance(kind, MemberDescriptorType):
        raise ConfigurationError(f"{name_of(cls)}{KIND_IS_A_FIELD}")
    if not isinstance(kind, str) or not kind:
        raise ConfigurationError(
            f"{cls.__qualname__}.kind must be a name: {shown(kind)}"
        )
    if OWN_KINDS.get(kind, cls.__module__) != cls.__module__:
        import_module(OWN_KINDS[kind])
    # A module loaded again and a dataclass given slots define the class anew.
    if not is_registered(cls, kind):
        raise ConfigurationError(
            f"{name_of(cls)}: the trigger kind {shown(kind)} is taken by"
            f" {name_of(_kinds[kind])}"
        )
    _kinds[kind] = cls


def is_registered(cls: type[Trigger], kind: str) -> bool:
    """Whether a class has a kind, or no class has it.

    It is told by name alone: within a function, a dataclass that is given slots has not
    got its qualified name when it is registered.
    """
    known = _kinds.get(kind, cls)
    return (cls.__module__, cls.__name__) == (known.__module__, known.__name__)


def find(kind: str) -> type[Trigger] | None:
    """The class of a kind; its module is imported, if that is known.

    Raises:
        ImportError: The module is this package's own and cannot be imported.
    """
    # While another thread imports it, a class may be registered and not complete.
    if kind in OWN_KINDS and kind not in _imported:
        import_module(OWN_KINDS[kind])
        _imported.add(kind)
    elif not _announced.is_set() and (
        kind not in _kinds or _loading - {threading.get_ident()}
    ):
        _load_announced()
    return _kinds.get(kind)


def why_unknown(kind: str) -> str:
    """Why there is no class of a kind."""
    reason = f"no imported class has the trigger kind {shown(kind)}"
    if _broken:
        reason += f"; these announced triggers could not be imported: {_broken}"
    return reason


def name_of(cls: type) -> str:
    """A class as errors name it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _load_announced() -> None:
    """Import the triggers that installed packages announce; note the broken ones."""
    # It is slow to import, and of no use to whom all kinds are known.
    from importlib.metadata import entry_points

    _loading.add(threading.get_ident())
    for announced in entry_points(group=ENTRY_POINTS):
        try:
            announced.load()
        except Exception as error:
            _broken[announced.name] = shown(error)
    _announced.set()
    _loading.discard(threading.get_ident())
