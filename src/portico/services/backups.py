"""Records backups in the audit log, and finds the newest one there."""

from portico.domain.audit import By
from portico.domain.events.operators import BackedUp
from portico.services.environment import Environment
from portico.storage.audit import Audit, AuditFilter


async def note_backup(env: Environment, by: By, size: int) -> None:
    """Records a backup of `size` bytes. Raises `Unavailable`."""
    await env.change.note(by, BackedUp(size))


async def last_backup(audit: Audit) -> int | None:
    """When the newest backup was made, in epoch milliseconds; None if the audit log has none."""
    newest = await audit.page(AuditFilter(action=BackedUp.action), limit=1)
    return newest[0].at if newest else None
