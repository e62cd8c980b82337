"""The store suite: tests every sentence of ``Store``, for any store, in six lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.clock import ManualClock
from go_scheduler.testing.store.additions import AddedTests, AddTests, FullTests
from go_scheduler.testing.store.backfills import BackfillOverlapTests, BackfillTests
from go_scheduler.testing.store.claims import (
    ClaimTests,
    HandOverTests,
    LapsedTests,
    LostClaimTests,
    PriorityTests,
    RenewTests,
    StartTests,
)
from go_scheduler.testing.store.cleanups import CleanupTests, RememberedTests
from go_scheduler.testing.store.definitions import (
    DefinitionListTests,
    DeleteTests,
    OwnerTests,
    PutTests,
    UnknownTriggerTests,
)
from go_scheduler.testing.store.edits import EditTests, SlotEditTests, UnfiredTests
from go_scheduler.testing.store.firings import (
    DueTests,
    FireTests,
    NextFireTimeTests,
    OnDemandTests,
    SkipTests,
    WaitingTests,
)
from go_scheduler.testing.store.nodes import (
    ContactTests,
    DueQueuesTests,
    ListClaimedTests,
    SettingTests,
    StatsTests,
)
from go_scheduler.testing.store.pauses import FrozenTests, PauseTests, ResumeTests
from go_scheduler.testing.store.remote_runs import (
    ClientTests,
    ResultTests,
    SilenceTests,
    StageTests,
    WorkerTests,
)
from go_scheduler.testing.store.runs import (
    CancelTests,
    FinishTests,
    HistoryTests,
    ReleaseTests,
    ReopenTests,
    RetryTests,
    SuccessTests,
)
from go_scheduler.testing.store.sets import SetTests
from go_scheduler.testing.store.slots import (
    FreedSlotTests,
    MetTests,
    OverlapTests,
    ParkedTests,
    SlotHolderTests,
    SlotTests,
)
from go_scheduler.testing.store.threads import ThreadTests
from go_scheduler.testing.store.values import OpenTests, TimeTests, ValueTests
from go_scheduler.testing.store.views import (
    InstanceListTests,
    MadeTests,
    TraceTests,
    ViewTests,
)

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
    LostClaimTests,
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
