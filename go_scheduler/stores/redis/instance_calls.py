"""The part of a Redis store that is about instances."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.errors import (
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import RUNS_KEPT, Cancelled, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.changes import check_is_as_read, run_end
from go_scheduler.stores.hand_over_store import HandOverStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.memory.lists import is_among
from go_scheduler.stores.messages import Answer, Reviewed
from go_scheduler.stores.priorities import Turns
from go_scheduler.stores.redis.definition_calls import write_claimant
from go_scheduler.stores.redis.rows import read_run
from go_scheduler.stores.redis.texts import (
    fresh_id,
    maybe_time_text,
    micros,
    present,
    read_id,
    read_time,
    time_text,
)
from go_scheduler.stores.sql.rows import NO_ID
from go_scheduler.stores.slots import MOST_BUFFERED, REPLACED, fate_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.stores.messages import (
        Addition,
        Claim,
        Claimant,
        Position,
        Release,
        Renewal,
        RunOutcome,
    )
    from go_scheduler.stores.redis.lists import Lists
    from go_scheduler.stores.redis.rows import Reader
    from go_scheduler.stores.redis.server import Server


class RedisInstances(HandOverStore):
    """What a ``RedisStore`` does with instances."""

    _server: Server
    _reader: Reader
    _lists: Lists
    _turns: Turns

    def _now(self) -> str | None:
        raise NotImplementedError

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        return self._add(definition_id, additions, {})

    def add_and_start(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        """Make instances, and start those that are due."""
        served: object = "all" if names is None else dict.fromkeys(names, True)
        queues = dict.fromkeys(claimant.queues, True)
        node = {"names": served, "queues": queues, **write_claimant(claimant)}
        return self._add(definition_id, additions, node)

    def _add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        node: Mapping[str, object],
    ) -> Sequence[TaskInstance]:
        answer = self._server.run(
            "add_instances",
            now=self._now(),
            of=definition_id.hex,
            soon=micros(SOON),
            additions=[
                present(
                    {
                        "id": each.id.hex,
                        "at": maybe_time_text(each.at),
                        "delay": micros(each.delay),
                        "payload": each.payload_text,
                        "key": each.key,
                    }
                )
                for each in additions
            ],
            **node,
        )
        if answer is None:
            raise TaskDefinitionNotFoundError(definition_id)
        return self._reader.instances(answer)

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        revision, *made = self._server.run(
            "backfill_instances",
            now=self._now(),
            of=definition.id.hex,
            revision=definition.revision,
            overlap=overlap.value,
            soon=micros(SOON),
            fire_times=[[time_text(each), fresh_id()] for each in fire_times],
        )
        if revision is None:
            raise TaskDefinitionNotFoundError(definition.id)
        check_is_as_read(definition, revision)
        return [read_time(each) for each in made[0]]  # type: ignore[misc]

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        answer = self._server.run(
            "claim_instances",
            now=self._now(),
            queues=claimant.queues,
            priorities=self._turns.next(),
            ahead=micros(ahead),
            lead=micros(lead),
            limit=limit,
            lapsed=None if lapsed is None else micros(lapsed),
            **write_claimant(claimant),
        )
        return self._reader.instances(answer)

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        last = None if after is None else after.id.hex
        answer = self._server.run(
            "list_claimed", node=node.hex, after=last, limit=limit
        )
        return self._reader.instances(answer)

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        answer = self._server.run(
            "start_instances",
            now=self._now(),
            claims=[_claim(each) for each in claims],
            **write_claimant(claimant),
        )
        return Answer(done=self._reader.instances(answer))

    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked."""
        *lists, parked, more = self._server.run(
            "review_parked",
            now=self._now(),
            limit=limit,
            most=MOST_BUFFERED,
            fates=_FATES,
            replaced=REPLACED,
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
        owned = self._server.run(
            "renew_claims",
            now=self._now(),
            renewals=[
                present(
                    {
                        **_claim(each.claim),
                        "lease": micros(each.lease),
                        "handed_on": each.handed_on or None,
                        "worker": each.worker,
                    }
                )
                for each in renewals
            ],
        )
        return Answer(done={read_id(id): bool(stops) for id, stops in owned})  # type: ignore[misc]

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        recorded = self._server.run(
            "finish_instances",
            now=self._now(),
            runs_kept=RUNS_KEPT,
            outcomes=[_outcome(each) for each in outcomes],
        )
        return Answer(done=_ids(recorded))

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        released = self._server.run(
            "release_instances",
            now=self._now(),
            releases=[
                {**_claim(each.claim), "delay": micros(each.delay)}
                for each in releases
            ],
        )
        return Answer(done=_ids(released))

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        found = self._server.run(
            "cancel_instances",
            now=self._now(),
            cancellations=[
                present({"id": id.hex, "next_fire_time": maybe_time_text(at)})
                for id, at in cancellations.items()
            ],
        )
        return {read_id(id): Cancelled(each) for id, each in found}  # type: ignore[misc]

    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        """Make instances run again that have failed."""
        return _ids(
            self._server.run(
                "reopen_instances",
                now=self._now(),
                ids=[each.hex for each in set(ids)],
                soon=micros(SOON),
            )
        )

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""
        found = self._reader.instances(
            self._server.run("get_instance", id=instance_id.hex)
        )
        if not found:
            raise TaskInstanceNotFoundError(instance_id)
        return found[0]

    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot."""
        found = self._reader.instances(self._server.run("get_instance", slot=slot))
        return found[0] if found else None

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance."""
        kept = self._server.run("list_runs", id=instance_id.hex)
        return [read_run(instance_id, each) for each in kept]

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given."""
        walked = self._lists.instances(
            definition_id=definition_id,
            key=key,
            state=state,
            since=since,
            newest_first=newest_first,
            after=after,
            limit=limit,
        )
        found = (
            each
            for each in walked
            if (name is None or each.definition.name == name)
            and (key is None or each.key == key)
            and (state is None or each.state is state)
            and _fired(each.fire_time, fired_since, fired_before)
            and is_among(each.definition, queues, owners)
        )
        return list(islice(found, limit))

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number."""
        if queues is None and owners is None:
            states = [each.value for each in State]
            numbers = map(int, self._server.run("counts", states=states))
            return dict(zip(State, numbers, strict=True))
        walked = self._lists.instances(
            definition_id=None,
            key=None,
            state=None,
            since=None,
            newest_first=False,
            after=None,
            limit=1000,
        )
        mine = Counter(
            each.state for each in walked if is_among(each.definition, queues, owners)
        )
        return {state: mine[state] for state in State}


def _claim(claim: Claim) -> dict[str, object]:
    return {"id": claim.instance_id.hex, "attempt": claim.attempt}


def _outcome(outcome: RunOutcome) -> dict[str, object]:
    return present(
        {
            **_claim(outcome.claim),
            "started_at": maybe_time_text(outcome.started_at),
            "outcome": None if outcome.outcome is None else outcome.outcome.value,
            "retry_in": micros(outcome.retry_in),
            "hung": outcome.hung or None,
            "error": outcome.error,
            "next_fire_time": maybe_time_text(outcome.next_fire_time),
            "result": outcome.result,
            "kept": run_end(outcome).value if outcome.is_kept else None,
        }
    )


def _fates() -> Mapping[str, Mapping[str, object]]:
    """What becomes of what is parked, by what a script finds: the one rule."""
    numbers = {"none": 0, "some": 1, "many": MOST_BUFFERED}
    found: dict[str, Mapping[str, object]] = {}
    for overlap in Overlap:
        for met, runs in (("met", True), ("free", False)):
            for name, number in numbers.items():
                ids = [NO_ID] * number
                fate = fate_of(overlap, runs=runs, waiting=ids)
                found[f"{overlap.value} {met} {name}"] = present(
                    {
                        "reason": fate.reason,
                        "replaces": bool(fate.replaced) or None,
                        "stops": fate.stops or None,
                    }
                )
    return found


_FATES = _fates()


def _fired(
    fire_time: datetime | None, since: datetime | None, before: datetime | None
) -> bool:
    """Whether a fire time is within these bounds."""
    if fire_time is None:
        return since is None and before is None
    return (since is None or fire_time >= since) and (
        before is None or fire_time < before
    )


def _ids(found: Iterable[str]) -> Set[UUID]:
    return {read_id(each) for each in found}  # type: ignore[misc]
