"""Many processes declare what they have: at once, and through a rolling deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.filters import DefinitionFilter
from tests.processes.node import Role
from tests.processes.process import ON_SHARED_STORES, Processes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.stores.base import Store

pytestmark = ON_SHARED_STORES

OLD = Role(declares=("a", "b"), version=1)
NEW = Role(declares=("b", "c"), version=2)


def declared(store: Store) -> Mapping[str | None, int | None]:
    """The names of what is stored, and how often it has been changed."""
    found = store.select_definitions()
    assert found == store.select_definitions(DefinitionFilter(owners=["app"]))
    return {each.name: each.revision for each in found}


def test_a_rolling_deploy_ends_with_what_the_new_version_declares(
    store: Store, nodes: Processes
) -> None:
    old = [nodes.start(OLD) for _ in range(2)]
    assert declared(store) == {"a": 1, "b": 1}
    first = nodes.start(NEW)
    assert declared(store) == {"b": 1, "c": 1}
    old[0].kill()
    # Somebody starts the old version once more before the last one is gone.
    again = nodes.start(OLD)
    assert declared(store) == {"b": 1, "c": 1}
    assert "was declared at version 2" not in first.errors()
    for each in (old[1], again, first, nodes.start(NEW)):
        each.stop()
    assert declared(store) == {"b": 1, "c": 1}
