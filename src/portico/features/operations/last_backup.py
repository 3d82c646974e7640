"""Records backups in the audit log, and finds the newest one there."""

from portico.core.audit import Author
from portico.environment import Environment
from portico.features.events.audit import Audit, AuditFilter
from portico.features.operations.events import BackedUp


async def note_backup(env: Environment, by: Author, size: int) -> None:
    """Records a backup of `size` bytes. Raises `Unavailable`."""
    await env.change.note(by, BackedUp(size))


async def last_backup(audit: Audit) -> int | None:
    """When the newest backup was made, in epoch milliseconds; None if the audit log has none."""
    newest = await audit.page(AuditFilter(action=BackedUp.action), limit=1)
    return newest[0].at if newest else None


LOOK_PERIOD = 60.0


async def look_for_backup(env: Environment) -> None:
    """Notes the time of the last backup. Raises `Unavailable`."""
    env.backed_up_at = await last_backup(env[Audit]) or env.backed_up_at
