"""The part of a Redis store that is about instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import QueueFullError, TaskDefinitionNotFoundError
from go_scheduler.models import RUNS_KEPT, Cancelled
from go_scheduler.policies import Overlap
from go_scheduler.stores.base import ByHandStore, InstanceStore
from go_scheduler.stores.hints import SOON
from go_scheduler.stores.messages import Answer, Reviewed
from go_scheduler.stores.redis.definition_calls import write_claimant
from go_scheduler.stores.redis.lists import AHEAD, DUE, RedisCalls, parts
from go_scheduler.stores.redis.rows import (
    fresh_id,
    maybe_time_text,
    micros,
    present,
    read_id,
    read_silences,
    read_time,
    time_text,
)
from go_scheduler.stores.rules import (
    FULL,
    MOST_BUFFERED,
    REPLACED,
    check_is_as_read,
    fate_of,
    run_end,
    with_silences,
)
from go_scheduler.stores.sql.rows import NO_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence, Set
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


class RedisInstances(RedisCalls, InstanceStore):
    """What a ``RedisStore`` does with instances."""

    _turns: Turns

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
            answer, silent, met = self._server.run(
                "claim_instances",
                now=self._now(),
                queues=claimant.queues,
                priorities=priorities,
                ahead=micros(ahead),
                lead=micros(lead),
                limit=room,
                lapsed=None if lapsed is None else micros(lapsed),
                deadline=time_text(deadline),
                **write_claimant(claimant),
            )
            some = self._reader.instances(answer)
            claimed += with_silences(some, read_silences(silent))
            # Of what it met, some may have been broken by hand, and set aside.
            if met < room:
                break
            most = DUE if some and some[-1].started_at else AHEAD
        return claimed

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
                        "step": each.step,
                        "progress": each.progress,
                    }
                )
                for each in renewals
            ],
        )
        return Answer(done={read_id(id): bool(stops) for id, stops in owned})  # type: ignore[misc]

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        lost: list[str] = []
        for some in parts(outcomes, DUE):
            lost += self._server.run(
                "finish_instances",
                now=self._now(),
                runs_kept=RUNS_KEPT,
                outcomes=[_outcome(each) for each in some],
            )
        return Answer(done={each.claim.instance_id for each in outcomes} - _ids(lost))

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        released = self._server.run(
            "release_instances",
            now=self._now(),
            releases=[
                present(
                    {
                        **_claim(each.claim),
                        "delay": micros(each.delay),
                        "reason": each.reason,
                    }
                )
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


def _claim(claim: Claim) -> dict[str, object]:
    return {"id": claim.instance_id.hex, "attempt": claim.attempt}


def _outcome(outcome: RunOutcome) -> dict[str, object]:
    written = _claim(outcome.claim)
    if outcome.started_at is not None:
        written["started_at"] = time_text(outcome.started_at)
    if outcome.outcome is None:
        written["retry_in"] = micros(outcome.retry_in)
    else:
        written["outcome"] = outcome.outcome.value
    if outcome.next_fire_time is not None:
        written["next_fire_time"] = time_text(outcome.next_fire_time)
    if outcome.is_kept:
        written["kept"] = run_end(outcome).value
    if outcome.hung:
        written["hung"] = True
    if outcome.may_delete:
        written["deletes"] = True
    for name in ("error", "result", "client"):
        if (text := getattr(outcome, name)) is not None:
            written[name] = text
    return written


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


def _ids(found: Iterable[str]) -> Set[UUID]:
    return {read_id(each) for each in found}  # type: ignore[misc]


class RedisAdditions(RedisCalls, ByHandStore):
    """What a ``RedisStore`` makes by hand."""

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        node: Mapping[str, object] = {}
        if claimant is not None:
            names = claimant.names
            node = {
                "names": "all" if names is None else dict.fromkeys(names, True),
                "queues": dict.fromkeys(claimant.queues, True),
                **write_claimant(claimant),
            }
        answer = self._server.run(
            "add_instances",
            now=self._now(),
            of=definition_id.hex,
            soon=micros(SOON),
            full=FULL,
            additions=[
                present(
                    {
                        "id": each.id.hex,
                        "at": maybe_time_text(each.at),
                        "delay": micros(each.delay),
                        "payload": each.payload_text,
                        "key": each.key,
                        "trace_context": each.trace_context,
                    }
                )
                for each in additions
            ],
            **node,
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
        revision, *made = self._server.run(
            "backfill_instances",
            now=self._now(),
            of=definition.id.hex,
            revision=definition.revision,
            overlap=overlap.value,
            trace_context=definition.trace_context,
            soon=micros(SOON),
            fire_times=[[time_text(each), fresh_id()] for each in fire_times],
        )
        if revision is None:
            raise TaskDefinitionNotFoundError(definition.id)
        check_is_as_read(definition, revision)
        return [read_time(each) for each in made[0]]  # type: ignore[misc]
