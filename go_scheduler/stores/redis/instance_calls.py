"""The part of a Redis store that is about instances."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler.errors import QueueFullError, TaskDefinitionNotFoundError
from go_scheduler.models import RUNS_KEPT, Cancelled
from go_scheduler.policies import Overlap
from go_scheduler.stores import rules
from go_scheduler.stores.base import ByHandStore, InstanceStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.messages import Answer, Reviewed
from go_scheduler.stores.redis.lists import AHEAD, DUE, RedisCalls, parts
from go_scheduler.stores.redis.rows import (
    fields_of,
    given_time,
    present,
    read_ids,
    read_silences,
)
from go_scheduler.stores.sql.rows import NO_ID, write_overrides

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import (
        Addition,
        Claim,
        Claimant,
        Release,
        Renewal,
        RunOutcome,
    )
    from go_scheduler.stores.rules import Turns


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


class RedisInstances(RedisCalls, ByHandStore, InstanceStore):
    """What a ``RedisStore`` does with instances."""

    _turns: Turns

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
