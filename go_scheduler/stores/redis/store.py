"""The Redis store: each method a script, which the server runs as one transaction.

The rules of a put compare triggers, which only Python can do: so it is decided here by
what was read, and the script that writes it does nothing if that has changed.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from go_scheduler.checks import check_positive
from go_scheduler.errors import (
    QueueFullError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import RUNS_KEPT, Cancelled
from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT, Store
from go_scheduler.stores.findings import Finding, answers
from go_scheduler.stores.hints import SOON, Hints
from go_scheduler.stores.messages import Answer, Fired, Put, Reviewed
from go_scheduler.stores.redis.lists import AHEAD, DUE, RedisReads, parts
from go_scheduler.stores.redis.rows import (
    TIMES,
    Reader,
    fields_of,
    given_time,
    present,
    read_contact,
    read_ids,
    read_silences,
    read_stats,
    read_tombstone,
    time_text,
    write_announcement,
    write_definition,
    write_stats,
)
from go_scheduler.stores.redis.server import (
    QUESTIONS,
    Listener,
    Server,
    check_version,
    log_risks,
    parse,
    told,
)
from go_scheduler.stores.sql.rows import NO_ID, write_overrides

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set

    from go_scheduler.clock import Clock
    from go_scheduler.models import QueueStats, Skipped, TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import (
        Addition,
        Announcement,
        Claim,
        Claimant,
        Firing,
        NodeContact,
        Own,
        Release,
        Renewal,
        Retention,
        RunOutcome,
        Tombstone,
    )
    from go_scheduler.stores.redis.server import Question
    from go_scheduler.stores.rules import Declaration

_TIMEOUT = timedelta(seconds=5)
_TRIES = 100
"""So often a put that others overtake is planned anew."""


def _fates() -> Mapping[str, Mapping[str, object]]:
    """What becomes of what is parked, by what a script finds: the one rule."""
    numbers = {"none": 0, "some": 1, "many": rules.MOST_BUFFERED}
    found: dict[str, Mapping[str, object]] = {}
    for overlap in Overlap:
        for met, runs in (("met", True), ("free", False)):
            for name, number in numbers.items():
                ids = [NO_ID] * number
                fate = rules.fate_of(overlap, runs=runs, waiting=ids)
                found[f"{overlap.value} {met} {name}"] = present(
                    {
                        "reason": fate.reason,
                        "replaces": bool(fate.replaced),
                        "stops": fate.stops,
                    }
                )
    return found


_FATES = _fates()


class RedisStore(RedisReads, Store):
    """Keeps everything in one Redis or Valkey, for processes on any machines.

    It takes Redis 6.2 or later. What is kept there survives a killed server, and a
    power failure, as its ``appendonly`` and ``appendfsync`` say: a node that starts
    warns where something may be lost. The store's time is that of the server.

    All keys of a store are in one hash slot: a cluster spreads stores, and not one
    store.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://…`` for TLS,
            ``redis+sentinel://host:26379,other:26379/name-of-master`` or
            ``redis+cluster://host:6379,other:6379``. ``?namespace=billing`` at its end
            says what ``namespace`` does.
        clock: Used instead of the server's time, for tests.
        namespace: What its keys begin with: stores of different ones know nothing of
            each other. None: what the URL says, or else ``go_scheduler``.
        timeout: How long an answer is waited for.

    Raises:
        ConfigurationError: The URL is not that of a Redis, or has another namespace
            than the argument, or the namespace cannot be part of a key.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        namespace: str | None = None,
        timeout: timedelta = _TIMEOUT,
    ) -> None:
        super().__init__(clock)
        check_positive("timeout", timeout)
        self._address = parse(url, namespace)
        self._server = Server(self._address, timeout)
        self._reader = Reader()
        self._turns = rules.Turns()
        self._has_warned = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self._address}')"

    def initialize(self) -> None:
        """Find the server, and refuse one that is too old."""
        check_version(self._server.reached())
        self._run("now")

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the server."""
        client = self._server.reached()

        def ask(question: Question) -> list[Finding]:
            with told():
                return list(question(client))

        return list(answers(QUESTIONS, ask))

    def connect(self) -> None:
        """Open a connection, and look how the server keeps what it is told."""
        client = self._server.reached()
        if not self._has_warned:
            log_risks(client)
            self._has_warned = True

    def close(self) -> None:
        """Let go of all connections."""
        self._server.close()

    def hints(self) -> Hints:
        """What others publish."""
        return Listener(self._server)

    def now(self) -> datetime:
        """The time of the clock that was passed, else the server's."""
        return self.clock.now() if self.clock else given_time(self._run("now"))

    # Definitions.

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        rules.check_each_once(definitions)
        if not definitions:
            return Put(definitions=[])
        first = {each.definition.id.hex: _firing(each) for each in firings}
        for _ in range(_TRIES):
            found = self._find(definitions)
            answer = self._run(
                "put_definitions",
                now=found.now,
                plans=[_plan(new, found) for new in definitions],
                firings=first if claimant else {},
                claimant=claimant,
                edited=rules.EDITED,
                soon=SOON,
            )
            if answer is not None:
                put, started = answer
                return Put(
                    definitions=self._as_put(definitions, put, found),
                    started=self._reader.instances(started),
                )
        raise _overtaken()

    def declare_definitions(self, declaration: Declaration) -> rules.Declared:
        """Let an owner have exactly the definitions of a declaration."""
        owner, given = declaration.owner, declaration.definitions
        rules.check_each_once(given)
        for _ in range(_TRIES):
            found = self._find(given, owner)
            last = None if found.set is None else json.loads(found.set)["version"]
            if rules.is_outdated(declaration.version, last):
                return rules.Declared(outdated_by=last)
            rules.check_owners(declaration, found.stored)
            answer = self._run(
                "declare_definitions",
                now=found.now,
                plans=[_plan(new, found, owner) for new in given],
                owner=owner,
                version=found.set,
                declared=json.dumps(
                    {"version": declaration.version, "declared_at": found.now}
                ),
                removed=declaration.removed,
                note=rules.removal_note(owner),
                edited=rules.EDITED,
                soon=SOON,
            )
            if answer is not None:
                put, resumed, deleted, paused = answer
                return rules.Declared(
                    definitions=self._as_put(given, put, found),
                    resumed=self._reader.definitions(resumed),
                    deleted=set(read_ids(deleted)),
                    paused=self._reader.definitions(paused),
                )
        raise _overtaken()

    def _find(
        self, given: Collection[TaskDefinition], owner: str | None = None
    ) -> _Found:
        now, views, remembered, last = self._run(
            "read_definitions",
            ids=[each.id for each in given],
            tombstones=True,
            owner=owner,
        )
        stored = self._reader.definitions(views)
        tombstones = filter(None, map(read_tombstone, remembered))
        return _Found(
            now=now,
            stored={each.id: each for each in stored},
            remembered={each.id: each for each in tombstones},
            set=last,
        )

    def _as_put(
        self, given: Sequence[TaskDefinition], answer: Sequence[Any], found: _Found
    ) -> list[TaskDefinition]:
        return [
            rules.ended_before(new, found.remembered[new.id])
            if view is None
            else self._reader.definition(view)
            for new, view in zip(given, answer, strict=True)
        ]

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""
        deleted = self._run("delete_definitions", ids=set(ids))
        return {UUID(hex=id): set(read_ids(ran)) for id, ran in deleted}

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        *_, found, _ = self._run("read_definitions", ids=set(ids), tombstones=True)
        return [each for each in map(read_tombstone, found) if each is not None]

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""
        views = self._run("pause_definitions", ids=set(ids), note=note)
        return self._reader.definitions(views)

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""
        views = self._run("resume_definitions", ids=set(ids), soon=SOON)
        return self._reader.definitions(views)

    def due_definitions(
        self,
        *,
        ahead: timedelta,
        after: TaskDefinition | None = None,
        limit: int,
        own: Own | None = None,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        place: str | None = None
        found: dict[UUID, TaskDefinition] = {}
        if after is not None and after.next_fire_time is not None:
            place = time_text(after.next_fire_time) + after.id.hex
        while len(found) < limit:
            views, place = self._run(
                "due_definitions",
                ahead=ahead,
                after=place,
                limit=min(AHEAD, limit - len(found)),
            )
            if not place:
                break
            for each in self._reader.definitions(views):
                # Others may have fired one meanwhile, so that it is met again behind.
                found.pop(each.id, None)
                found[each.id] = each
        return list(found.values())

    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
        """Create the instances of each firing and move its definition on."""
        lost: list[str] = []
        started: list[TaskInstance] = []
        for some in parts(firings, AHEAD if claimant is None else DUE):
            lost_of_these, views = self._run(
                "fire_definitions", firings=list(map(_firing, some)), claimant=claimant
            )
            lost += lost_of_these
            started += self._reader.instances(views)
        done = {each.definition.id for each in firings}
        return Fired(done=done.difference(read_ids(lost)), started=started)

    # Instances.

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        names = ("id", "at", "delay", "payload_text", "key", "trace_context")
        answer = self._run(
            "add_instances",
            of=definition_id,
            additions=[
                fields_of(each, *names)
                | present({"overrides": write_overrides(each.overrides)})
                for each in additions
            ],
            claimant=claimant,
            soon=SOON,
            full=rules.FULL,
        )
        if answer is None:
            raise TaskDefinitionNotFoundError(definition_id)
        if isinstance(answer, int):
            raise QueueFullError(definition_id, answer)
        return self._reader.instances(answer)

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        revision, *made = self._run(
            "backfill_instances",
            of=definition.id,
            revision=definition.revision,
            overlap=overlap,
            trace_context=definition.trace_context,
            soon=SOON,
            fire_times=[(each, uuid4()) for each in fire_times],
        )
        if revision is None:
            raise TaskDefinitionNotFoundError(definition.id)
        rules.check_is_as_read(definition, revision)
        return [given_time(each) for each in made[0]]

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        priorities = self._turns.next()
        claimed: list[TaskInstance] = []
        most = AHEAD
        while (room := min(most, limit - len(claimed))) > 0:
            answer, silent, met = self._run(
                "claim_instances",
                claimant=claimant,
                priorities=priorities,
                ahead=ahead,
                lead=lead,
                limit=room,
                lapsed=lapsed,
                deadline=deadline,
                runs_kept=RUNS_KEPT,
            )
            some = self._reader.instances(answer)
            claimed += rules.with_silences(some, read_silences(silent))
            # Of what it met, some may have been broken by hand, and set aside.
            if met < room:
                break
            most = DUE if some and some[-1].started_at else AHEAD
        return claimed

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        answer = self._run(
            "start_instances", claimant=claimant, claims=list(map(_claim, claims))
        )
        return Answer(done=self._reader.instances(answer))

    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked."""
        *lists, parked, more = self._run(
            "review_parked",
            limit=limit,
            most=rules.MOST_BUFFERED,
            fates=_FATES,
            replaced=rules.REPLACED,
        )
        unparked, skipped, replaced = map(self._reader.instances, lists)
        return Reviewed(
            unparked=unparked,
            skipped=skipped,
            replaced=replaced,
            parked=bool(parked),
            more=bool(more),
        )

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on."""
        names = ("lease", "handed_on", "worker", "step", "progress")
        written = [
            {**_claim(each.claim), **fields_of(each, *names)} for each in renewals
        ]
        owned = dict(self._run("renew_claims", renewals=written))
        stops = map(bool, owned.values())
        return Answer(done=dict(zip(read_ids(owned), stops, strict=True)))

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        lost: list[str] = []
        for some in parts(outcomes, DUE):
            lost += self._run(
                "finish_instances",
                outcomes=list(map(_outcome, some)),
                runs_kept=RUNS_KEPT,
            )
        done = {each.claim.instance_id for each in outcomes}
        return Answer(done=done.difference(read_ids(lost)))

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        written = [
            {**_claim(each.claim), **fields_of(each, "delay", "reason")}
            for each in releases
        ]
        released = self._run("release_instances", releases=written)
        return Answer(done=set(read_ids(released)))

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        times = {id.hex: at for id, at in cancellations.items()}
        found = dict(
            self._run(
                "cancel_instances", ids=list(times), next_fire_times=present(times)
            )
        )
        cancelled = map(Cancelled, found.values())
        return dict(zip(read_ids(found), cancelled, strict=True))

    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        """Make instances run again that have failed."""
        return set(read_ids(self._run("reopen_instances", ids=set(ids), soon=SOON)))

    # Nodes.

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        self._run(
            "note_contact",
            node=announced.node,
            unbroken=unbroken,
            announced=write_announcement(announced),
        )

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        found = self._run("list_contacts", within=within)
        return [read_contact(node, text) for node, text in found]

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        self._run("note_stats", node=node, stats=list(map(write_stats, stats)))

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted."""
        found = self._run("list_stats", since=since, until=until)
        return [read_stats(*each) for each in found]

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        kept: str = self._run("keep_setting", name=name, value=value)
        return kept

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        deleted: int
        deleted, forgotten = self._run(
            "delete_finished",
            retention=retention,
            contacts=CONTACTS_KEPT,
            stats=STATS_KEPT,
            most=self.most_remembered,
            limit=limit,
        )
        rules.note_forgotten(forgotten, most=self.most_remembered)
        return deleted


class _Found(NamedTuple):
    """What there is of definitions that are put.

    Attributes:
        now: When it was read.
        stored: The definitions that there are.
        remembered: The tombstones.
        set: The last declaration of the owner.
    """

    now: str
    stored: Mapping[UUID, TaskDefinition]
    remembered: Mapping[UUID, Tombstone]
    set: str | None


def _plan(
    new: TaskDefinition, found: _Found, owner: str | None = None
) -> dict[str, Any]:
    """What a script is to do, and what has to be as it was read.

    A revision is that of one definition: a new one of the same id has a higher one.
    """
    stored, now = found.stored.get(new.id), given_time(found.now)
    remembered = found.remembered.get(new.id) if new.named else None
    action = rules.put_action(new, stored, remembered)
    plan: dict[str, Any] = {"id": new.id, "action": action}
    if stored is None:
        plan["looked"] = new.named
        if remembered is not None:
            plan["remembered"] = str(remembered.revision)
        if action == "new":
            put = rules.created(new, now, revision=1, owner=owner)
            plan["values"] = write_definition(put)
        return plan
    plan |= fields_of(stored, "revision", "next_fire_time", "owner", "note")
    plan["resumes"] = owner is not None and rules.was_removed(stored)
    if action == "kept":
        same = rules.kept(stored, new, owner=owner)
        owned = {"named": "1" if same.named else None, "owner": same.owner}
        return {**plan, "values": present(owned)}
    if action == "edited":
        values = write_definition(rules.edited(stored, new, owner=owner))
        # Somebody may fire it meanwhile.
        values = {name: values[name] for name in values.keys() - TIMES}
        return {**plan, "values": values, "takes_back": new.jitter != stored.jitter}
    if (skipped := rules.unfired(stored, now)) is not None:
        plan["skipped"] = _record(skipped)
    put = rules.rescheduled(stored, new, now, owner=owner)
    # What is overdue goes back on purpose.
    return {**plan, "goes_back": put.overdue, "values": write_definition(put)}


def _firing(firing: Firing) -> dict[str, Any]:
    """What a script fires; of one that is put with it the revision is not known."""
    skipped = firing.skipped
    return {
        **fields_of(firing.definition, "id", "next_fire_time", "revision"),
        **present({"next": firing.next_fire_time}),
        **({} if skipped is None else {"skipped": _record(skipped)}),
        "instances": [(*each, uuid4().hex) for each in firing.instances()],
    }


def _record(skipped: Skipped) -> dict[str, Any]:
    """What a script makes the record of skipped fire times of."""
    return {"id": uuid4(), **fields_of(skipped, "first", "last", "count", "reason")}


def _overtaken() -> StoreUnavailableError:
    return StoreUnavailableError(
        "Redis: others change the same definitions all the time; try again"
    )


def _claim(claim: Claim) -> dict[str, object]:
    return {"id": claim.instance_id.hex, "attempt": claim.attempt}


_END = ("started_at", "outcome", "error", "next_fire_time", "result", "client")


def _outcome(outcome: RunOutcome) -> dict[str, object]:
    written = fields_of(outcome, *_END)
    written |= _claim(outcome.claim)
    if outcome.outcome is None:
        written["retry_in"] = outcome.retry_in
    if outcome.is_kept:
        written["kept"] = rules.run_end(outcome)
    if outcome.hung:
        written["hung"] = True
    if outcome.may_delete:
        written["deletes"] = True
    return written
