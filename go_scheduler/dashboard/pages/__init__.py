"""Pages: what each reads, its routes, and its template of the same name."""

from go_scheduler.dashboard.pages import overview

PAGES = (overview,)
"""All there are."""
