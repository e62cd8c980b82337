"""The rules of the store machine that drive instances."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from go_scheduler.models import RUNS, Outcome, Stage, State
from go_scheduler.stores.messages import Claim, Release, Renewal, RunOutcome
from go_scheduler.stores.slots import uses_slot
from go_scheduler.testing.machine.drawn import (
    ALL,
    QUEUES,
    nodes,
    offsets,
    seconds,
)
from go_scheduler.testing.machine.pair import StorePair, seen_of
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.stores.base import Store


class InstanceRules(StorePair):
    """Instances are claimed, started, kept, given back, ended, and cancelled."""

    @rule(
        node=nodes,
        queues=st.sampled_from([QUEUES, QUEUES[:1], QUEUES[1:]]),
        ahead=seconds,
        lead=seconds,
        lapsed=st.none() | seconds,
    )
    def claim(
        self,
        node: UUID,
        queues: tuple[str, ...],
        ahead: timedelta,
        lead: timedelta,
        lapsed: timedelta | None,
    ) -> None:
        """A node claims all that it can get."""
        claimant = self._claimant(node, queues)

        def claim(store: Store) -> object:
            settle(store)
            claimed = store.claim_instances(
                claimant, ahead=ahead, lead=lead, limit=ALL, lapsed=lapsed
            )
            if store is self.oracle:
                self._note(claimed)
            return {
                self._known(store, each): (seen_of(each), each.silence)
                for each in claimed
            }

        self._alike(claim)

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        """Somebody lets some of what has failed run again."""
        failed = self.oracle.list_instances(state=State.FAILED, limit=ALL)
        chosen = self._some(data, failed) if failed else ()

        def reopen(store: Store) -> object:
            mine = [self._twin(store, each.id) for each in chosen]
            return {self._oracles(store, each) for each in store.reopen_instances(mine)}

        self._alike(reopen)

    @rule(node=nodes)
    def list_claimed(self, node: UUID) -> None:
        """A node looks for what it has claimed; what is frozen may be left out."""

        def read(store: Store) -> object:
            found = store.list_claimed(node, limit=ALL)
            return {
                self._known(store, each): seen_of(each)
                for each in found
                if not each.definition.paused
            }

        self._alike(read)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), node=nodes)
    def start(self, data: st.DataObject, node: UUID) -> None:
        """A node starts what it has claimed or lost."""
        claims = self._some(data, self._claims)

        def start(store: Store) -> object:
            mine = [self._claim(store, each) for each in claims]
            started = store.start_instances(self._claimant(node, QUEUES), mine).done
            return {
                self._known(store, each): (
                    seen_of(each),
                    self._definition(store, each.definition),
                )
                for each in started
            }

        self._alike(start)

    @precondition(lambda self: self._claims)
    @rule(
        data=st.data(),
        lease=seconds.filter(bool),
        handed_on=st.booleans(),
        worker=st.sampled_from([None, "ä", "b"]),
        stage=st.none() | st.sampled_from(Stage),
        progress=st.sampled_from([None, '"ä"', "[1]"]),
    )
    def renew(
        self,
        data: st.DataObject,
        *,
        lease: timedelta,
        handed_on: bool,
        worker: str | None,
        stage: Stage | None,
        progress: str | None,
    ) -> None:
        """A node renews or hands on what it has claimed or lost, perhaps over a bus."""
        claims = self._some(data, self._claims)

        def renew(store: Store) -> object:
            answer = store.renew_claims(
                [
                    Renewal(
                        claim=self._claim(store, each),
                        lease=lease,
                        handed_on=handed_on,
                        worker=worker,
                        stage=stage,
                        progress=progress,
                    )
                    for each in claims
                ]
            ).done
            return {self._oracles(store, each): asked for each, asked in answer.items()}

        self._alike(renew)

    @precondition(lambda self: self._claims)
    @rule(
        data=st.data(),
        outcome=st.none() | st.sampled_from(Outcome),
        retry_in=seconds,
        hung=st.booleans(),
        error=st.sampled_from([None, "no"]),
        called=st.booleans(),
        next_fire_time=st.none() | offsets,
        result=st.sampled_from([None, '"ä"', "[1]"]),
    )
    def finish(
        self,
        data: st.DataObject,
        *,
        outcome: Outcome | None,
        retry_in: timedelta,
        hung: bool,
        error: str | None,
        called: bool,
        next_fire_time: timedelta | None,
        result: str | None,
    ) -> None:
        """A node finishes what it has claimed or lost."""
        [claim] = self._some(data, self._claims, most=1)
        now = self.clock.now()
        # What is skipped has not been called.
        called = outcome is None or (called and outcome is not Outcome.SKIPPED)
        end = RunOutcome(
            claim=claim,
            started_at=now if called else None,
            outcome=outcome,
            retry_in=retry_in,
            hung=hung,
            error=error,
            next_fire_time=None if next_fire_time is None else now + next_fire_time,
            result=result if outcome is Outcome.COMPLETED else None,
        )

        def finish(store: Store) -> object:
            mine = replace(end, claim=self._claim(store, claim))
            accepted = store.finish_instances([mine]).done
            return {self._oracles(store, each) for each in accepted}

        self._alike(finish)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), delay=seconds, reason=st.sampled_from([None, "no fuel"]))
    def release(
        self, data: st.DataObject, delay: timedelta, reason: str | None
    ) -> None:
        """A node gives back what it has claimed or lost."""
        claims = self._some(data, self._claims)

        def release(store: Store) -> object:
            accepted = store.release_instances(
                [
                    Release(claim=self._claim(store, each), delay=delay, reason=reason)
                    for each in claims
                ]
            ).done
            return {self._oracles(store, each) for each in accepted}

        self._alike(release)

    @precondition(lambda self: self._twins)
    @rule(data=st.data(), next_fire_time=st.none() | offsets)
    def cancel(self, data: st.DataObject, next_fire_time: timedelta | None) -> None:
        """Instances are cancelled."""
        which = self._some(data, list(self._twins))
        at = None if next_fire_time is None else self.clock.now() + next_fire_time

        def cancel(store: Store) -> object:
            mine = {self._twin(store, each): at for each in which}
            answer = store.cancel_instances(mine)
            return {self._oracles(store, each): came for each, came in answer.items()}

        self._alike(cancel)

    @rule()
    def review_parked(self) -> None:
        """Somebody goes over what is parked."""

        def go_over(store: Store) -> object:
            settle(store)
            found = store.review_parked(limit=ALL)
            parts = found.unparked, found.skipped, found.replaced
            return [
                {self._known(store, each): seen_of(each) for each in part}
                for part in parts
            ]

        self._alike(go_over)

    @invariant()
    def nobody_runs_beside_what_it_excludes(self) -> None:
        """Of a definition that has always excluded that, one instance runs."""
        running = Counter(
            each.definition.id
            for state in RUNS
            for each in self.store.list_instances(state=state, limit=ALL)
            if uses_slot(each.definition)
        )
        assert all(
            count == 1 or id in self._loosened for id, count in running.items()
        ), f"more than one runs of a definition: {running}"

    def _claim(self, store: Store, claim: Claim) -> Claim:
        return replace(claim, instance_id=self._twin(store, claim.instance_id))
