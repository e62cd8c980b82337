"""Pages: each reads its data, has its routes, and a template of the same name."""

from go_scheduler.dashboard.pages import (
    definitions,
    instances,
    live,
    nodes,
    overview,
    search,
    strip,
)

PAGES = (
    overview,
    strip,
    definitions,
    instances,
    search,
    nodes,
    live,
)
"""All there are."""
