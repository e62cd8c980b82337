"""Lines about nodes, their loops and executors."""

from __future__ import annotations

from go_scheduler.events.lines.line import (
    DEBUG,
    ERROR,
    INFO,
    WARNING,
    Line,
    line_of,
)
from go_scheduler.events.node_events import (
    ExecutorFailed,
    ExecutorRecovered,
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    NodeStopped,
    NoticeGiven,
    ObjectiveBroken,
    ObjectiveMet,
    QueueUnserved,
)


@line_of.register(NodeStarted)
def _(event: NodeStarted) -> Line:
    return Line(INFO, "node %s starts", (event.node,), {"node": event.node})


@line_of.register(NodeStopped)
def _(event: NodeStopped) -> Line:
    text = f"node %s has stopped{'' if event.clean else ' and left work behind'}"
    return Line(INFO, text, (event.node,), {"node": event.node})


@line_of.register(LoopFailed)
def _(event: LoopFailed) -> Line:
    return Line(
        WARNING if event.failures == 1 else DEBUG,
        "the %s failed and will try again: %r",
        (event.loop, event.exception),
        {"ticker": event.loop, "failures": event.failures},
        event.exception,
    )


@line_of.register(LoopRecovered)
def _(event: LoopRecovered) -> Line:
    text = "the %s goes on after %d failures"
    return Line(INFO, text, (event.loop, event.failures))


@line_of.register(ExecutorFailed)
def _(event: ExecutorFailed) -> Line:
    text = "the executor takes no more handlers: %r"
    return Line(ERROR, text, (event.exception,))


@line_of.register(ExecutorRecovered)
def _(event: ExecutorRecovered) -> Line:
    return Line(WARNING, "the executor takes handlers again")


@line_of.register(ObjectiveBroken)
def _(event: ObjectiveBroken) -> Line:
    text = "%d of the last minute's %d runs are more than %g s late"
    late = event.objective.total_seconds()
    return Line(WARNING, text, (event.late, event.runs, late), {"node": event.node})


@line_of.register(ObjectiveMet)
def _(event: ObjectiveMet) -> Line:
    text = "runs are at most %g s late again, after %.0f s"
    spans = (event.objective.total_seconds(), event.after.total_seconds())
    return Line(INFO, text, spans, {"node": event.node})


@line_of.register(QueueUnserved)
def _(event: QueueUnserved) -> Line:
    return Line(WARNING, "%s", (event.text,))


@line_of.register(NoticeGiven)
def _(event: NoticeGiven) -> Line:
    ids = {"definition_id": event.definition_id, "instance_id": event.instance_id}
    known = {name: id for name, id in ids.items() if id is not None}
    return Line(WARNING if event.is_warning else INFO, "%s", (event.text,), known)
