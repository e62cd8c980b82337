"""Declaring: an application says which definitions it has, as a whole."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_name, check_type, check_version
from go_scheduler.client.arguments import several
from go_scheduler.client.scheduling import Scheduling, aput_prepared, put_prepared
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import (
    Change,
    DeclarationOutdated,
    DefinitionDeleted,
)
from go_scheduler.formatting import shown
from go_scheduler.running.withdrawing import Kind
from go_scheduler.stores.rules import Declaration, Removed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.rules import Declared

_REMOVED = get_args(Removed)


class Declaring(Scheduling):
    """Declares sets of definitions."""

    @write_instead('scheduler.declare([definition], owner="shop")')
    def declare(
        self,
        definitions: Iterable[TaskDefinition],
        *,
        owner: str,
        version: int | None = None,
        removed: Removed = "delete",
        adopt: bool = False,
        connection: object = None,
    ) -> list[TaskDefinition]:
        """Let an owner have these definitions and no others, in one write.

        Each is scheduled, as by ``schedule``. What the owner has declared before and
        declares no more is deleted, or paused. Any number of processes may call it at
        each start, at once as well: the same set again changes nothing, and of two sets
        the later one counts, as a whole. With a ``version``, one that is lower than the
        last changes nothing, so that in a rolling deploy what starts late in its old
        version does not undo the new one.

        What is declared stays in its set: ``schedule`` may change it until the next
        declaration, which changes it back, and ``delete_definition`` deletes it until
        then. What somebody has paused stays paused.

        ```python
        scheduler.declare([report, cleanup], owner="shop", version=7)
        ```

        Args:
            definitions: The set; each with a ``key``, or an id of its own.
            owner: Whose set it is: a name that each application has for itself, at most
                200 characters.
            version: Rises with each release whose set differs, such as the number of
                the build; None: the owner has no versions. Once it has had one, a
                declaration without one changes nothing.
            removed: What becomes of those that are declared no more: *delete*, and the
                id is forgotten; *pause*, until they are declared again, by this owner
                or by another one; or *keep*: nothing, they stay in the set as they are.
            adopt: Whether a definition of these ids that is in no set, as it was
                scheduled by itself, is taken into this one.
            connection: To make it part of a transaction of yours, as for ``schedule``.
                Other declarations of this owner wait for its end. If this raises, roll
                it back.

        Returns:
            The definitions as stored, in the order given; empty if a later version has
            been declared.

        Raises:
            ConfigurationError: An argument is wrong; or one of the definitions is in
                the set of another owner, or in none. Nothing has changed.
            InvalidTriggerError: As for ``schedule``.
            ConflictError: As for ``schedule``.
            StoreUnavailableError: As for ``schedule``.

        Warns:
            ScheduleWarning: The trigger of one is one that people often do not mean.
        """
        prepare = partial(
            self._declaration,
            several("definitions", definitions),
            owner,
            version=version,
            removed=removed,
            adopt=adopt,
        )
        return put_prepared(prepare, self._declare, connection)

    @write_instead('await scheduler.adeclare([definition], owner="shop")')
    async def adeclare(
        self,
        definitions: Iterable[TaskDefinition],
        *,
        owner: str,
        version: int | None = None,
        removed: Removed = "delete",
        adopt: bool = False,
        connection: object = None,
    ) -> list[TaskDefinition]:
        """Await what ``declare`` does; see there.

        Its ``connection`` is one as for ``aschedule``.
        """
        prepare = partial(
            self._declaration,
            several("definitions", definitions),
            owner,
            version=version,
            removed=removed,
            adopt=adopt,
        )
        return await aput_prepared("declare", prepare, self._declare, connection)

    def _declaration(
        self,
        definitions: Sequence[TaskDefinition],
        owner: str,
        *,
        version: int | None,
        removed: Removed,
        adopt: bool,
        joins: bool,
    ) -> tuple[Declaration, Sequence[str]]:
        owner = check_name("owner", owner)
        check_version(version)
        if removed not in _REMOVED:
            raise ConfigurationError(
                f"removed must be 'delete', 'pause' or 'keep', not {shown(removed)}"
            )
        check_type("adopt", adopt, bool)
        prepared, odd = self._prepare("declare", definitions, joins=joins)
        for each in prepared:
            if not each.named:
                raise ConfigurationError(
                    "what is declared needs an id of its own, the same at each start,"
                    f" as by key='nightly report': {shown(each.trigger)}"
                )
        declaration = Declaration(
            owner=owner,
            definitions=prepared,
            version=version,
            removed=removed,
            adopts=adopt,
        )
        return declaration, odd

    def _declare(
        self, declaration: Declaration, connection: object
    ) -> list[TaskDefinition]:
        # Empty if the version was too low; the user's transaction may still commit.
        done: list[Declared] = []

        def committed() -> None:
            withdraw()
            self._look_at_all()

        def withdraw() -> None:
            for each in done:
                self._withdraw(Kind.DELETED, each.deleted)
                self._withdraw(Kind.PAUSED, [paused.id for paused in each.paused])

        store = self._within(connection, committed)
        declared = store.declare_definitions(declaration)
        done.append(declared)
        if declared.outdated_by is not None:
            self._events.tell(
                DeclarationOutdated(
                    owner=declaration.owner,
                    version=declaration.version,
                    stored=declared.outdated_by,
                )
            )
            return []
        if connection is None:
            withdraw()
            for each in declared.definitions:
                self._look(each)
            if declared.resumed:
                # Instances without a fire time may have waited for the resume.
                self._look_for_instances()
        joined = connection is not None
        self._tell_scheduled(declared.definitions, joined=joined)
        self._tell_changed(Change.RESUMED, declared.resumed, joined=joined)
        self._tell_changed(Change.PAUSED, declared.paused, joined=joined)
        for gone in declared.deleted:
            self._events.tell(DefinitionDeleted(definition_id=gone, joined=joined))
        return list(declared.definitions)
