"""Metrics and spans of OpenTelemetry. A failure there never fails a run."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from go_scheduler.events.event_bus import BoundedLog
from go_scheduler.models import Histogram, TaskInstance
from go_scheduler.models.counts import BOUNDS_IN_SECONDS
from go_scheduler.telemetry import figures
from go_scheduler.telemetry.figures import COUNTED, PRESENT, Gathering
from go_scheduler.trace_context import joined, parted
from go_scheduler.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.context import Context
    from opentelemetry.trace import TracerProvider

    from go_scheduler.events.event import Put
    from go_scheduler.telemetry.figures import Figure, Gathered, Labels, Read


_SCOPE = "go_scheduler"
_HEADER, _STATE = "traceparent", "tracestate"
# Each value takes some microseconds; more values would delay an export.
_MOST_VALUES = 10_000
# The providers until a program sets one.
_NOBODY = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
_W3C = TraceContextTextMapPropagator()
_VALUES = (*BOUNDS_IN_SECONDS, 2 * BOUNDS_IN_SECONDS[-1])


class Telemetry(Gathering):
    """A listener that exports metrics and spans by OpenTelemetry.

    ```python
    scheduler = Scheduler(handler, store, listeners=[Telemetry()])
    ```

    One may be a listener of several schedulers: their metrics are added up. Metrics are
    read when they are exported. Each run of a handler is a span, except in processes of
    an executor, and so is each call that puts something to be run. A ``Client`` and a
    ``Worker`` take it as ``telemetry``, for spans alone.

    Args:
        meter_provider: Provides the metrics; None: the global one.
        tracer_provider: Provides the spans; None: the global one.
    """

    surrounds = True

    def __init__(
        self,
        *,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        super().__init__()
        # Each run may log an error, so the number of lines is limited.
        self._log = BoundedLog(logging.getLogger("go_scheduler.telemetry"))
        meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
        self._is_global = tracer_provider is None
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
        # Several readers may export at once.
        self._recording = threading.Lock()
        self._told: dict[tuple[Figure, Labels], Histogram] = {}
        for figure, read in COUNTED.items():
            meter.create_observable_counter(**self._observed(figure, read))
        for figure, read in PRESENT.items():
            meter.create_observable_gauge(**self._observed(figure, read))
        self._histograms = {
            each: meter.create_histogram(
                each.name,
                unit=each.unit,
                description=each.text,
                explicit_bucket_boundaries_advisory=figures.BUCKETS,
            )
            for each in (figures.LATENESS, figures.DURATION)
        }

    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """The span of a run, unless there is no tracer provider."""
        if self._is_global and isinstance(trace.get_tracer_provider(), _NOBODY):
            return super().around(instance)
        return self._safely(instance)

    @contextmanager
    def _safely(self, instance: TaskInstance) -> Iterator[None]:
        """The span of a run. An error of the span is logged, not raised."""
        entered = ExitStack()
        try:
            entered.enter_context(self._span(instance))
        except Exception as error:
            self._tell("a span could not be begun", error)
        raised: Any = None, None, None
        try:
            yield
        except BaseException:
            raised = sys.exc_info()
            raise
        finally:
            try:
                entered.__exit__(*raised)
            except Exception as error:
                self._tell("a span could not be ended", error)

    def carry(self, put: Put) -> str | None:
        """The trace context of a span for the call; without one, the current one."""
        try:
            return self._carried(put)
        # An error of the exporter must not lose what is put.
        except Exception as error:
            self._tell("a span could not be made of what is put", error)
            return put.carried

    def _tell(self, text: str, error: Exception) -> None:
        self._log.write(logging.WARNING, text, ids={}, error=error)

    def _carried(self, put: Put) -> str | None:
        within = None
        if put.carried and not trace.get_current_span().get_span_context().is_valid:
            within = _W3C.extract(_headers(*parted(put.carried)))
        attributes: dict[str, str | int] = {
            "messaging.system": _SCOPE,
            "messaging.operation.name": put.operation,
            "messaging.operation.type": "create",
        }
        if put.size != 1:
            attributes["messaging.batch.message_count"] = put.size
        span = self._tracer.start_span(
            f"{put.operation} {put.name}" if put.name else put.operation,
            context=within,
            kind=trace.SpanKind.PRODUCER,
            attributes=attributes,
        )
        span.end()
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, trace.set_span_in_context(span))
        return joined(carrier.get(_HEADER), carrier.get(_STATE))

    def _span(self, instance: TaskInstance) -> AbstractContextManager[object]:
        definition = instance.definition
        created = _created(instance)
        found = trace.get_current_span(created).get_span_context()
        # The trace of a recurring schedule would never end.
        is_once = instance.fire_time is None or not definition.recurring
        return self._tracer.start_as_current_span(
            f"process {definition.name or definition.queue}",
            kind=trace.SpanKind.CONSUMER,
            context=created if is_once else None,
            links=[trace.Link(found)] if found.is_valid else [],
            attributes={
                "messaging.system": _SCOPE,
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": definition.queue,
                "messaging.message.id": str(instance.id),
                "go_scheduler.definition.id": str(definition.id),
                "go_scheduler.definition.name": definition.name or "",
                "go_scheduler.attempt": instance.attempt,
                "go_scheduler.due_at": instance.due_at.isoformat(),
            },
        )

    def _observed(self, figure: Figure, read: Read) -> dict[str, Any]:
        """The arguments of an observable instrument."""

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            found = self.gathered()
            if figure is figures.STARTED:
                try:
                    self._record(found)
                # Without histograms there are still the counts.
                except Exception as error:
                    self._tell("a histogram could not be recorded", error)
            for values, count in read(found):
                labels = zip(figure.labels, values, strict=True)
                yield Observation(count, dict(labels))

        return {
            "name": figure.name,
            "callbacks": [observe],
            "unit": figure.unit,
            "description": figure.text,
        }

    def _record(self, found: Gathered) -> None:
        """Record the values since the last export, each rounded up to its bound."""
        left = _MOST_VALUES
        for of, counts in found.counts.items():
            labels = dict(zip(figures.LATENESS.labels, of, strict=True))
            for figure, now in (
                (figures.LATENESS, counts.lateness),
                (figures.DURATION, counts.durations),
            ):
                with self._recording:
                    before = self._told.get((figure, of), Histogram())
                    self._told[figure, of] = now
                for value, count in _risen(before, now):
                    some = min(count, left)
                    left -= some
                    for _ in range(some):
                        self._histograms[figure].record(value, labels)


def _created(instance: TaskInstance) -> Context | None:
    """The first valid trace context of its payload, metadata and row."""
    payload, metadata = instance.payload or {}, instance.metadata
    for given in (
        _headers(payload.get(_HEADER), payload.get(_STATE)),
        _headers(metadata.get(_HEADER), metadata.get(_STATE)),
        _headers(*parted(instance.trace_context)),
    ):
        found = _W3C.extract(given)
        if trace.get_current_span(found).get_span_context().is_valid:
            return found
    return None


def _headers(traceparent: object, tracestate: object) -> dict[str, str]:
    """The headers for a propagator."""
    given = {_HEADER: traceparent, _STATE: tracestate}
    return {name: each for name, each in given.items() if isinstance(each, str)}


def _risen(before: Histogram, now: Histogram) -> Iterator[tuple[float, int]]:
    """Each value of which there are more than before, and how many more."""
    for bound, count, told in zip(_VALUES, now.counts, before.counts, strict=True):
        if count > told:
            yield bound, count - told
