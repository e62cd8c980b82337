"""A node's claiming side on a store that fails as it is told to."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.policies import CatchUp
from go_scheduler.running.admission import Admission
from go_scheduler.running.announcing import Announcing
from go_scheduler.running.calling.calls import Calls
from go_scheduler.running.calling.workers import Handling, Spares, Workers
from go_scheduler.running.claiming import Claiming
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.hand_over import HandOver
from go_scheduler.running.held import Held
from go_scheduler.running.instance_runner import InstanceRunner
from go_scheduler.running.keeper import Contact, Keeper, Overdue, Renewals
from go_scheduler.running.recorder import Recorder
from go_scheduler.running.room import Room
from go_scheduler.running.slots import Slots
from go_scheduler.running.starter import Starter, Timer
from go_scheduler.running.takeover import Takeover, Unanswered
from go_scheduler.running.tally import Objective
from go_scheduler.settings import Settings
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Answer
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    LEASE,
    NODE,
    claimant,
    definition,
    fire,
    put,
)
from go_scheduler.ticking.ticker import Pace
from tests.running.wakes import noted_wakes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence, Set
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import State, TaskDefinition, TaskInstance
    from go_scheduler.running.held import HeldRun
    from go_scheduler.stores.messages import (
        Addition,
        Claim,
        Claimant,
        Fired,
        Firing,
        Release,
    )
    from go_scheduler.testing import ManualClock

WINDOW = timedelta(seconds=1)
LEAD = timedelta(milliseconds=20)
DEFAULTS = Defaults(expire_after=EXPIRE_AFTER)
TICK = timedelta(microseconds=1)


class FaultyStore(MemoryStore):
    """Fails and dawdles as it is told to, and notes what it was asked."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.manual = clock
        self.away = False
        self.claim_answer_lost = False
        self.hand_over_lost = False
        self.start_answer_lost = False
        self.locked: set[UUID] = set()
        self.bad: set[UUID] = set()
        self.slow = ZERO
        self.limits: list[int] = []
        self.lapsed: list[timedelta | None] = []
        self.starts: list[int] = []
        self.ahead: list[timedelta] = []
        self.lists = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        if self.away:
            raise StoreUnavailableError("away")
        self.limits.append(limit)
        self.ahead.append(ahead)
        self.lapsed.append(lapsed)
        found = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        self.manual.advance(self.slow)
        self.meanwhile()
        if self.claim_answer_lost:
            raise StoreUnavailableError("the answer is lost")
        return found

    def put_and_start(
        self, firing: Firing, claimant: Claimant
    ) -> tuple[TaskDefinition, TaskInstance | None]:
        found = super().put_and_start(firing, claimant)
        self.meanwhile()
        if self.hand_over_lost:
            raise StoreUnavailableError("the answer is lost")
        return found

    def fire_and_start(self, firings: Sequence[Firing], claimant: Claimant) -> Fired:
        found = super().fire_and_start(firings, claimant)
        if self.hand_over_lost:
            raise StoreUnavailableError("the answer is lost")
        return found

    def add_and_start(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        found = super().add_and_start(definition_id, additions, claimant, names=names)
        self.meanwhile()
        if self.hand_over_lost:
            raise StoreUnavailableError("the answer is lost")
        return found

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        if self.away:
            raise StoreUnavailableError("away")
        if not self.bad.isdisjoint(each.instance_id for each in claims):
            raise StoreError("a bad row")
        self.starts.append(len(claims))
        free = [each for each in claims if each.instance_id not in self.locked]
        found = super().start_instances(claimant, free)
        self.manual.advance(self.slow)
        if self.start_answer_lost:
            raise StoreUnavailableError("the answer is lost")
        busy = {each.instance_id for each in claims}.intersection(self.locked)
        return Answer(done=found.done, busy=busy)

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        if self.away:
            raise StoreUnavailableError("away")
        self.lists += 1
        return super().list_claimed(node, after=after, limit=limit)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        if not self.bad.isdisjoint(each.claim.instance_id for each in releases):
            raise StoreError("a bad row")
        free = [each for each in releases if each.claim.instance_id not in self.locked]
        done = super().release_instances(free).done
        return Answer(
            done=done,
            busy={each.claim.instance_id for each in releases} & self.locked,
        )


class House:
    """A runner, and those it works with."""

    def __init__(
        self,
        store: FaultyStore,
        clock: StoreClock,
        base: ManualClock,
        *,
        handler: Handler = lambda _: None,
        max_held: int = 100,
        max_workers: int = 4,
    ) -> None:
        self.store = store
        self.base = base
        self.held = Held()
        self.due: deque[HeldRun] = deque()
        self.contact = Contact(base, lease=LEASE)
        self.recorder = Recorder(
            store, clock, defaults=DEFAULTS, max_hangs=None, recorded=lambda: None
        )
        self.timer = Timer(clock, hand_over=self._take)
        self.pace = Pace(WINDOW)
        self.spares = Spares(self.held, most=3)
        self.calls = Calls(
            handler,
            clock,
            held=self.held,
            spares=self.spares,
            recorder=self.recorder,
            keeper=Keeper(
                Renewals(store, clock, lease=LEASE, contact=self.contact),
                clock,
                held=self.held,
                recorder=self.recorder,
                overdue=Overdue(
                    self.held,
                    self.recorder,
                    end=lambda run: False,
                    replace=lambda run: None,
                ),
                left=lambda: None,
            ),
        )
        # The test does their work; they say how many they are.
        self.workers = Workers(
            self.calls,
            clock,
            spares=self.spares,
            handling=Handling(handler),
            max_workers=max_workers,
        )
        admission = Admission(
            handler,
            clock,
            held=self.held,
            recorder=self.recorder,
            spares=self.spares,
            defaults=DEFAULTS,
        )
        unanswered = Unanswered(
            store,
            clock,
            claimant().node,
            held=self.held,
            recorder=self.recorder,
            under_way=lambda: self.hand_over.under_way,
        )
        claiming = Claiming(
            store,
            clock,
            claimant(),
            contact=self.contact,
            pace=self.pace,
            unanswered=unanswered,
        )
        self.starter = Starter(
            claiming,
            clock,
            held=self.held,
            admission=admission,
            timer=self.timer,
            slots=Slots(store, clock, freed=lambda: None, lease=LEASE),
        )
        self._wakes = noted_wakes(self.starter.ticker)
        settings = Settings(
            schedule_window=WINDOW,
            runner_window=WINDOW,
            cleanup_window=WINDOW,
            queues=("default",),
            max_workers=max_workers,
            max_held=max_held,
            max_hung=3,
            max_hangs=3,
            expire_after=EXPIRE_AFTER,
            timeout=None,
            retry=None,
            catch_up=CatchUp(),
            lease=LEASE,
            retention=LEASE,
            retention_failed=None,
            remember=timedelta(days=400),
            clock_error=None,
            lateness_objective=None,
        )
        objective = Objective(None, self.recorder.tally, clock=clock, node=NODE)
        announcing = Announcing(NODE, handler, settings, objective=objective)
        self.takeover = Takeover(
            store,
            clock,
            announcing,
            lease=LEASE,
            contact=self.contact,
            look=lambda: None,
        )
        room = Room(
            clock,
            settings,
            held=self.held,
            recorder=self.recorder,
            workers=self.workers,
            calls=self.calls,
        )
        self.runner = InstanceRunner(
            claiming,
            clock,
            room=room,
            admission=admission,
            starter=self.starter,
            takeover=self.takeover,
        )
        self.hand_over = HandOver(
            claiming,
            clock,
            announcing=announcing,
            runner=self.runner,
            admission=admission,
            starter=self.starter,
        )

    @property
    def wakes(self) -> int:
        return len(self._wakes)

    def tick(self) -> timedelta:
        """Let the starter and the runner tick, and answer how soon either wants to."""
        self.starter.tick()
        claims = self.runner.tick()
        assert claims is not None
        starts = self.starter.tick()
        return claims if starts is None else min(claims, starts)

    def _take(self, runs: Sequence[HeldRun]) -> None:
        for run in runs:
            if self.held.fall_due([run], self.base.elapsed()):
                self.due.append(run)

    def claim(self) -> timedelta:
        """Tick, with a claim."""
        self.runner.look()
        return self.tick()

    def settle(self) -> None:
        """Tick until there is nothing to be done at once."""
        self.runner.look()
        for _ in range(100):
            if self.tick() != ZERO:
                return
        raise AssertionError("it never comes to rest")

    def perform(self, run: HeldRun) -> None:
        """What a worker does."""
        assert self.held.call(run)
        run.begin(self.base.elapsed(), self.store.now(), lambda: None)
        run.settle()
        self.recorder.succeed(run)
        self.held.end(run)

    def record(self) -> None:
        self.recorder._outbox._last = None
        self.recorder.tick()


def pending(
    store: FaultyStore, *, after: timedelta = ZERO, name: str | None = None
) -> TaskInstance:
    [instance] = fire(store, put(store, definition(store.now() + after, name=name)))
    return instance


def state(store: FaultyStore, instance: TaskInstance) -> State:
    return store.get_instance(instance.id).state
