"""The dashboard as the configuration of a server has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.dashboard.app import Dashboard, create_dashboard
from go_scheduler.dashboard.signing_in import SignIn

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from go_scheduler.http.access.authentication import Access
    from go_scheduler.http.configuration.loading import Configuration


def configured(settings: Configuration, client: Client, access: Access) -> Dashboard:
    """The dashboard of a server.

    Args:
        settings: All that is set.
        client: What it shows.
        access: Tells who calls.

    Raises:
        ConfigurationError: A setting is wrong.
    """
    given = settings.dashboard
    secret = given.client_secret
    return create_dashboard(
        client,
        access=access,
        allow_changes=given.allow_changes,
        sign_in=SignIn(
            client_id=given.client_id,
            client_secret=None if secret is None else secret.get_secret_value(),
            scope=given.scope,
            lasts=given.session,
        ),
        origin=given.origin,
    )
