"""The store suite: tests every sentence of ``Store``, for any store, in six lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.clock import ManualClock
from go_scheduler.testing.store import (
    additions,
    backfills,
    claims,
    cleanups,
    definitions,
    edits,
    firings,
    nodes,
    pauses,
    remote_runs,
    runs,
    sets,
    slots,
    threads,
    values,
    views,
)

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


class StoreSuite(
    definitions.PutTests,
    edits.EditTests,
    edits.UnfiredTests,
    definitions.DeleteTests,
    pauses.PauseTests,
    pauses.FrozenTests,
    pauses.ResumeTests,
    firings.DueTests,
    firings.FireTests,
    firings.SkipTests,
    firings.WaitingTests,
    firings.OnDemandTests,
    additions.AddTests,
    additions.FullTests,
    additions.AddedTests,
    backfills.BackfillTests,
    backfills.BackfillOverlapTests,
    claims.HandOverTests,
    claims.ClaimTests,
    claims.PriorityTests,
    claims.LapsedTests,
    claims.LostClaimTests,
    nodes.ListClaimedTests,
    claims.StartTests,
    slots.SlotTests,
    slots.ParkedTests,
    slots.FreedSlotTests,
    edits.SlotEditTests,
    slots.SlotHolderTests,
    slots.OverlapTests,
    slots.MetTests,
    claims.RenewTests,
    runs.FinishTests,
    runs.RetryTests,
    remote_runs.WorkerTests,
    remote_runs.ResultTests,
    remote_runs.ClientTests,
    remote_runs.StageTests,
    remote_runs.SilenceTests,
    views.MadeTests,
    views.TraceTests,
    firings.NextFireTimeTests,
    runs.SuccessTests,
    runs.HistoryTests,
    runs.ReopenTests,
    runs.ReleaseTests,
    runs.CancelTests,
    nodes.ContactTests,
    nodes.DueQueuesTests,
    nodes.StatsTests,
    nodes.SettingTests,
    definitions.DefinitionListTests,
    views.InstanceListTests,
    views.ViewTests,
    cleanups.CleanupTests,
    cleanups.RememberedTests,
    sets.SetTests,
    definitions.OwnerTests,
    values.TimeTests,
    values.ValueTests,
    definitions.UnknownTriggerTests,
    values.OpenTests,
    threads.ThreadTests,
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
