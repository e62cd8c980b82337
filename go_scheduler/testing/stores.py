"""The store suite: tests every sentence of ``Store``, for any store, in six lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.clock import ManualClock
from go_scheduler.testing.store.added_instances import AddedTests
from go_scheduler.testing.store.additions import AddTests
from go_scheduler.testing.store.backfill_overlaps import BackfillOverlapTests
from go_scheduler.testing.store.backfills import BackfillTests
from go_scheduler.testing.store.cancels import CancelTests
from go_scheduler.testing.store.claims import ClaimTests
from go_scheduler.testing.store.cleanups import CleanupTests
from go_scheduler.testing.store.definition_lists import DefinitionListTests
from go_scheduler.testing.store.definitions import PutTests
from go_scheduler.testing.store.deletes import DeleteTests
from go_scheduler.testing.store.due import DueTests
from go_scheduler.testing.store.edits import EditTests
from go_scheduler.testing.store.firings import FireTests, SkipTests
from go_scheduler.testing.store.freed_slots import FreedSlotTests
from go_scheduler.testing.store.frozen import FrozenTests
from go_scheduler.testing.store.full import FullTests
from go_scheduler.testing.store.hand_over import HandOverTests
from go_scheduler.testing.store.history import HistoryTests
from go_scheduler.testing.store.instance_lists import InstanceListTests
from go_scheduler.testing.store.lapsed import LapsedTests
from go_scheduler.testing.store.made import MadeTests
from go_scheduler.testing.store.met import MetTests
from go_scheduler.testing.store.next_fire_times import NextFireTimeTests
from go_scheduler.testing.store.nodes import (
    ContactTests,
    DueQueuesTests,
    LapsedForTests,
    ListClaimedTests,
)
from go_scheduler.testing.store.on_demand import OnDemandTests
from go_scheduler.testing.store.overlaps import OverlapTests
from go_scheduler.testing.store.owners import OwnerTests
from go_scheduler.testing.store.parked_instances import ParkedTests
from go_scheduler.testing.store.pauses import PauseTests
from go_scheduler.testing.store.priorities import PriorityTests
from go_scheduler.testing.store.releases import ReleaseTests
from go_scheduler.testing.store.remembered import RememberedTests
from go_scheduler.testing.store.reopened import ReopenTests
from go_scheduler.testing.store.resumes import ResumeTests
from go_scheduler.testing.store.run_elsewhere import (
    ClientTests,
    ResultTests,
    WorkerTests,
)
from go_scheduler.testing.store.runs import FinishTests, RetryTests
from go_scheduler.testing.store.sets import SetTests
from go_scheduler.testing.store.settings import SettingTests
from go_scheduler.testing.store.slot_edits import SlotEditTests
from go_scheduler.testing.store.slot_holders import SlotHolderTests
from go_scheduler.testing.store.slots import SlotTests
from go_scheduler.testing.store.stages import SilenceTests, StageTests
from go_scheduler.testing.store.starts import RenewTests, StartTests
from go_scheduler.testing.store.stats import StatsTests
from go_scheduler.testing.store.successes import SuccessTests
from go_scheduler.testing.store.threads import ThreadTests
from go_scheduler.testing.store.traces import TraceTests
from go_scheduler.testing.store.unfired import UnfiredTests
from go_scheduler.testing.store.unknown_triggers import UnknownTriggerTests
from go_scheduler.testing.store.values import OpenTests, TimeTests, ValueTests
from go_scheduler.testing.store.views import ViewTests
from go_scheduler.testing.store.waiting import WaitingTests

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


class StoreSuite(
    PutTests,
    EditTests,
    UnfiredTests,
    DeleteTests,
    PauseTests,
    FrozenTests,
    ResumeTests,
    DueTests,
    FireTests,
    SkipTests,
    WaitingTests,
    OnDemandTests,
    AddTests,
    FullTests,
    AddedTests,
    BackfillTests,
    BackfillOverlapTests,
    HandOverTests,
    ClaimTests,
    PriorityTests,
    LapsedTests,
    LapsedForTests,
    ListClaimedTests,
    StartTests,
    SlotTests,
    ParkedTests,
    FreedSlotTests,
    SlotEditTests,
    SlotHolderTests,
    OverlapTests,
    MetTests,
    RenewTests,
    FinishTests,
    RetryTests,
    WorkerTests,
    ResultTests,
    ClientTests,
    StageTests,
    SilenceTests,
    MadeTests,
    TraceTests,
    NextFireTimeTests,
    SuccessTests,
    HistoryTests,
    ReopenTests,
    ReleaseTests,
    CancelTests,
    ContactTests,
    DueQueuesTests,
    StatsTests,
    SettingTests,
    DefinitionListTests,
    InstanceListTests,
    ViewTests,
    CleanupTests,
    RememberedTests,
    SetTests,
    OwnerTests,
    TimeTests,
    ValueTests,
    UnknownTriggerTests,
    OpenTests,
    ThreadTests,
):
    """Tests a store: subclass it and say how to make one.

    ```python
    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self, clock: ManualClock) -> Iterator[Store]:
            store = MyStore(clock=clock)
            store.initialize()
            yield store
            store.close()
    ```

    The fixture ``store`` yields an empty, initialized store on the ``clock``. Nothing
    else is needed, and there is nothing to switch off: a store that fails a test breaks
    a promise that the schedulers rely on. If it does not go by the clock, one test says
    so and the others are skipped. One whose scans leave out for a moment what has just
    been committed says so by ``Store.settling``; see ``settle``.
    """

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The clock that the store goes by; the tests move it."""
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> Store:
        """The store to test; a subclass provides it."""
        # There are hundreds of tests, and none of their lines says more.
        pytest.fail(
            "write a fixture `store(self, clock)` that yields an empty, initialized"
            " store on that clock",
            pytrace=False,
        )

    @pytest.fixture(autouse=True)
    def _on_its_clock(self, request: pytest.FixtureRequest) -> None:
        """Let one test say that the store has another time, and not hundreds."""
        says_so = StoreSuite.test_the_store_goes_by_the_clock_it_was_given.__name__
        if "store" not in request.fixturenames or request.function.__name__ == says_so:
            return
        store: Store = request.getfixturevalue("store")
        clock: ManualClock = request.getfixturevalue("clock")
        if store.now() != clock.now():
            pytest.skip(f"the store does not go by its clock=: see {says_so}")
