"""The diagnosis: all questions, one after the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_made, check_positive, check_type
from go_scheduler.clock import Clock, SystemClock
from go_scheduler.doctor import definitions, instances
from go_scheduler.doctor.facts import Facts
from go_scheduler.doctor.machine import clocks, versions
from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.shown import shown
from go_scheduler.stores.base import Store
from go_scheduler.stores.findings import (
    SCHEMA_MISSING,
    UNREACHABLE,
    Finding,
    Severity,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EXPIRE_AFTER = timedelta(minutes=5)
_QUESTIONS: dict[str, Callable[[Facts], Iterator[Finding]]] = {
    "nodes": definitions.nodes,
    "handlers": definitions.names,
    "definitions": definitions.definitions,
    "what waits": instances.backlog,
    "what runs": instances.running,
    "what failed": instances.failed,
    "what was skipped": instances.skipped,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found.

    Attributes:
        findings: All of it, in the order in which it was asked.
    """

    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity:
        """How much the worst of it matters."""
        return max(
            (each.severity for each in self.findings), key=lambda each: each.rank
        )

    @property
    def reached(self) -> bool:
        """Whether the store could be asked at all."""
        return all(each.name != UNREACHABLE.name for each in self.findings)


def diagnose(
    store: Store,
    *,
    handlers: HandlerRegistry | Collection[str] | None = None,
    most: int = 10_000,
    expire_after: timedelta = _EXPIRE_AFTER,
    clock: Clock | None = None,
) -> Report:
    """Look a store and its schedule over. It writes nothing, and changes no schema.

    A user of the database who may only read suffices; what such a one may not see, and
    what takes too long, is a finding as well. Each question takes seconds at most.

    ```python
    report = diagnose(open_store("sqlite:///jobs.db"))
    for finding in report.findings:
        print(finding.severity, finding.name, finding.seen, finding.remedy)
    ```

    Args:
        store: It need not be initialized.
        handlers: Those that are to run it, or their names; None: they are not known.
        most: So many definitions are looked at, at most.
        expire_after: That of the schedulers, for definitions without one.
        clock: That of this machine, for tests.

    Returns:
        All that was found; of a store that cannot be reached that alone.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    opener = "open_store(), in go_scheduler.stores"
    check_made("store", store, Store, opener=opener)
    check_type("most", most, int)
    if most < 1:
        raise ConfigurationError(f"most must be at least 1, not {shown(most)}")
    check_positive("expire_after", expire_after)
    facts = Facts(
        store, names=_names_of(handlers), most=most, expire_after=expire_after
    )
    return Report(findings=tuple(_findings(store, facts, clock or SystemClock())))


def _names_of(
    handlers: HandlerRegistry | Collection[str] | None,
) -> Collection[str] | None:
    if isinstance(handlers, HandlerRegistry):
        return handlers.names
    if isinstance(handlers, str) or not isinstance(handlers, Collection | None):
        raise ConfigurationError(
            "handlers must be a HandlerRegistry, or a collection of names, not"
            f" {shown(handlers)}"
        )
    return handlers


def _findings(store: Store, facts: Facts, clock: Clock) -> Iterator[Finding]:
    yield from versions()
    try:
        examined = store.examine()
        yield from clocks(store, clock)
    except StoreError as error:
        yield UNREACHABLE.found(str(error))
        return
    yield from examined
    if any(each.name == SCHEMA_MISSING.name for each in examined):
        return
    for about, question in _QUESTIONS.items():
        try:
            yield from question(facts)
        except StoreError as error:
            yield unanswered(about, error)
