"""The application on both engines, as for the contract, and what was noted in its audit log."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from contract.conftest import api, environ
from driving import Api
from portico.environment import Environment
from portico.features.events.audit import Audit

__all__ = ["api", "environ", "noted"]

Noted = Callable[..., Awaitable[list[tuple[str, str | None, str | None, dict[str, Any]]]]]


@pytest.fixture
async def noted(api: Api) -> Noted:
    """Tells action, target, its id and details of what was noted since the last call, oldest
    first."""
    seen = {env.name: (await last(env)) for env in api.portico.environments}

    async def tell(env: Environment | None = None) -> list[Any]:
        env = env or api.live
        entries = [entry for entry in await env[Audit].page(limit=100) if entry.id > seen[env.name]]
        seen[env.name] = await last(env)
        return [
            (entry.action, entry.target, entry.target_id, msgspec.json.decode(entry.details))
            for entry in reversed(entries)
        ]

    return tell


async def last(env: Environment) -> int:
    """The id of an environment's newest entry."""
    return max((entry.id for entry in await env[Audit].page(limit=1)), default=0)
