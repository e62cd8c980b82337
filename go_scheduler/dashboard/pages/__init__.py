"""Pages: what each reads, its routes, and its template of the same name."""

from go_scheduler.dashboard.pages import (
    definition,
    definition_changes,
    definitions,
    instance,
    instance_changes,
    instances,
    nodes,
    overview,
    search,
    strip,
)

PAGES = (
    overview,
    strip,
    definitions,
    definition,
    definition_changes,
    instances,
    instance,
    instance_changes,
    search,
    nodes,
)
"""All there are."""
