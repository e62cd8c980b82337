"""A node's execution side, wired: the instance runner with all its parts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.health import Lateness, RecentLateness
from go_scheduler.running.admission import Admission
from go_scheduler.running.announcing import Announcing
from go_scheduler.running.calling.calls import Calls
from go_scheduler.running.calling.workers import Spares, Workers
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
from go_scheduler.running.withdrawing import join
from go_scheduler.ticking.ticker import Pace

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.running.calling.workers import Handling
    from go_scheduler.settings import Settings
    from go_scheduler.stores.base import Store


class Execution:
    """What claims, starts, calls, records and renews the instances of one node.

    Without a handler it only tells the others of this node.

    Args:
        handling: What is called, and where.
        store: Where to claim and to record.
        clock: The store's time, as this node has it.
        node: Its id.
        settings: How the parts behave.
        events: Told of what happens.

    Attributes:
        hand_over: Takes what is created here and due.
        objective: Whether runs begin in time.
        makers: The tickers of what makes work; a stop ends these first.
        tickers: Those of all its parts.
    """

    def __init__(
        self,
        handling: Handling,
        store: Store,
        clock: StoreClock,
        node: UUID,
        *,
        settings: Settings,
        events: Events = LOG_ALONE,
    ) -> None:
        self._store = store
        self._clock = clock
        self._claimant = settings.claimant(node)
        self._settings = settings
        self._defaults = Defaults.of(settings)
        self._events = events
        self._contact = Contact(clock.base, lease=settings.lease)
        self.held = Held()
        self._spares = Spares(self.held, most=settings.spares)
        # The empty registry is never asked: without tickers nothing is claimed.
        handler = HandlerRegistry() if handling.handler is None else handling.handler
        self._beside = handling.beside
        self._wire_recording()
        self._wire_announcing(handling.handler)
        self._wire_calling(handler, handling)
        self._wire_claiming(handler)
        if handling.handler is None:
            self.hand_over.stop()
            self.makers.clear()
            self.tickers = [self._takeover.ticker]

    @property
    def is_running(self) -> bool:
        """Whether a handler runs that has not been given up."""
        return not set(self.held.hung()).issuperset(self.held.running())

    @property
    def has_left(self) -> bool:
        """Whether the others know that this node takes nothing more, if they can."""
        return self._takeover.has_left

    @property
    def lateness(self) -> RecentLateness:
        """How late runs began here lately."""
        recent = self.recorder.tally.recent()
        return RecentLateness(
            **{name: Lateness.of(each) for name, each in recent._asdict().items()},
            objective=self.objective.wanted,
            met=self.objective.met,
        )

    def leave(self) -> None:
        """Tell the others that this node takes nothing more."""
        self._takeover.leave()

    def look(self) -> None:
        """Look for instances to claim at once, here and in the nodes beside this."""
        self._runner.look()
        self._beside()

    def look_here(self) -> None:
        """Look for instances to claim at once."""
        self._runner.look()

    def poll(self) -> None:
        """Look for instances sooner than at the next tick."""
        self._runner.poll()

    def give_back(self) -> None:
        """Give back every instance that has not been called."""
        self.hand_over.let_in()
        self._calls.give_back_uncalled()

    def give_back_unknown(self) -> bool:
        """Give back what an answer that was lost has claimed; false: not yet."""
        if self._unanswered.any:
            try:
                self._unanswered.give_back()
            except StoreError:
                return False
        return True

    def write_last_stats(self) -> None:
        """Write what has been counted and is not yet written, if the store takes it."""
        with suppress(StoreError):
            self._announcing.write_stats(self._store, last=True)

    def _wire_recording(self) -> None:
        self.recorder = Recorder(
            self._store,
            self._clock,
            defaults=self._defaults,
            max_hangs=self._settings.max_hangs,
            recorded=lambda: self._runner.fill(),
            slot_freed=lambda: self._slots.free(),
            events=self._events,
        )
        overdue = Overdue(
            self.held,
            self.recorder,
            end=lambda run: self.workers.end(run),
            replace=lambda run: self.workers.replace(run),
            events=self._events,
        )
        renewals = Renewals(
            self._store,
            self._clock,
            lease=self._settings.lease,
            contact=self._contact,
            events=self._events,
        )
        self.keeper = Keeper(
            renewals,
            self._clock,
            held=self.held,
            recorder=self.recorder,
            overdue=overdue,
            left=lambda: self.workers.give_back_left(),
            events=self._events,
        )

    def _wire_announcing(self, handler: Handler | None) -> None:
        self.objective = Objective(
            self._settings.lateness_objective,
            self.recorder.tally,
            clock=self._clock,
            node=self._claimant.node,
            events=self._events,
        )
        self._announcing = Announcing(
            self._claimant.node, handler, self._settings, objective=self.objective
        )

    def _wire_calling(self, handler: Handler, handling: Handling) -> None:
        self._calls = Calls(
            handler,
            self._clock,
            held=self.held,
            spares=self._spares,
            recorder=self.recorder,
            keeper=self.keeper,
            events=self._events,
        )
        self.workers = Workers(
            self._calls,
            self._clock,
            spares=self._spares,
            handling=handling,
            max_workers=self._settings.max_workers,
            grown=lambda: self._runner.fill(),
            events=self._events,
        )

    def _wire_claiming(self, handler: Handler) -> None:
        claiming = self._make_claiming()
        self.admission = Admission(
            handler,
            self._clock,
            held=self.held,
            recorder=self.recorder,
            spares=self._spares,
            defaults=self._defaults,
            events=self._events,
        )
        join(self._store, self.admission.withdrawing)
        self._slots = self._make_slots()
        timer = self._make_timer()
        starter = Starter(
            claiming,
            self._clock,
            held=self.held,
            admission=self.admission,
            timer=timer,
            slots=self._slots,
            events=self._events,
        )
        self._takeover = self._make_takeover()
        self._runner = InstanceRunner(
            claiming,
            self._clock,
            room=self._make_room(),
            admission=self.admission,
            starter=starter,
            takeover=self._takeover,
            events=self._events,
        )
        self.hand_over = self._make_hand_over(claiming, starter)
        self._unanswered = claiming.unanswered
        makers = (self._runner, starter, timer, self._slots, self.hand_over)
        self.makers = [each.ticker for each in makers]
        others = [self.recorder.ticker, self.keeper.ticker]
        self.tickers = [self._takeover.ticker, *self.makers, *others]

    def _make_timer(self) -> Timer:
        return Timer(
            self._clock,
            hand_over=self.workers.submit,
            prepare=self.workers.prepare,
            events=self._events,
        )

    def _make_hand_over(self, claiming: Claiming, starter: Starter) -> HandOver:
        return HandOver(
            self._store,
            self._clock,
            claiming=claiming,
            announcing=self._announcing,
            runner=self._runner,
            admission=self.admission,
            starter=starter,
            events=self._events,
        )

    def _make_claiming(self) -> Claiming:
        unanswered = Unanswered(
            self._store,
            self._clock,
            self._claimant.node,
            held=self.held,
            recorder=self.recorder,
            under_way=lambda: self.hand_over.under_way,
            events=self._events,
        )
        return Claiming(
            self._store,
            self._clock,
            self._claimant,
            contact=self._contact,
            pace=Pace(self._settings.runner_window),
            unanswered=unanswered,
        )

    def _make_slots(self) -> Slots:
        return Slots(
            self._store,
            self._clock,
            freed=self.look,
            lease=self._settings.lease,
            events=self._events,
        )

    def _make_takeover(self) -> Takeover:
        return Takeover(
            self._store,
            self._clock,
            self._announcing,
            lease=self._settings.lease,
            contact=self._contact,
            look=self.look,
            events=self._events,
        )

    def _make_room(self) -> Room:
        return Room(
            self._clock,
            self._settings,
            held=self.held,
            recorder=self.recorder,
            workers=self.workers,
            calls=self._calls,
        )
