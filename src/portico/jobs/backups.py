"""Looking when the last backup was made, for the metric."""

from portico.services.backups import last_backup
from portico.services.environment import Environment
from portico.storage.audit import Audit

LOOK_PERIOD = 60.0


async def look_for_backup(env: Environment) -> None:
    """Notes the time of the last backup. Raises `Unavailable`."""
    env.backed_up_at = await last_backup(env[Audit]) or env.backed_up_at
