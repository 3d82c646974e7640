"""The newest stored moment, the time of the last backup, and the correction of moments that a clock
far ahead has stored."""

from portico.core.times import DAY, HOUR
from portico.data.database import Database, Transaction
from portico.environment import Environment
from portico.features.access.storage import API_KEYS, CLIENTS, GRANTS, SIGNING_KEYS, TOKENS
from portico.features.catalogue.storage import PRODUCTS
from portico.features.events.audit import Audit, AuditFilter
from portico.features.events.storage import DELIVERIES, WEBHOOKS
from portico.features.mail.storage import MAILS
from portico.features.operations.events import BackedUp
from portico.features.people.storage import INVITATIONS, USERS
from portico.features.signin.rules import step_of
from portico.features.signin.storage import AUTHENTICATORS, LINKS, PASSKEYS, SESSIONS
from portico.resource.uploads import UPLOADS

# An audit entry is stored with every change, and a flush with the counts of requests.
_NEWEST = """
SELECT max(at) FROM (
    SELECT at FROM (SELECT at FROM audit ORDER BY id DESC LIMIT 1) AS entry
    UNION ALL SELECT max(at) FROM flushes) AS moments"""

_CREATED = (
    *(USERS, PRODUCTS, API_KEYS, CLIENTS, SIGNING_KEYS, GRANTS, TOKENS, SESSIONS, LINKS),
    *(AUTHENTICATORS, PASSKEYS, INVITATIONS, WEBHOOKS, DELIVERIES, MAILS, UPLOADS),
)
"""Tables whose rows have a `created_at`."""

_LATER = ("expires_at", "access_expires_at", "refresh_expires_at", "signs_at", "retires_at")
"""Columns of moments that may lie in the future."""

_PAST = (
    *(("events", "at"), ("failed_requests", "at"), ("untold_imports", "at")),
    ("logouts", "next_attempt_at"),
    *(("known_addresses", "last_at"), ("known_devices", "last_at"), ("wrong_codes", "last_at")),
)
"""Further columns of moments that have passed."""

_BRIEF = (
    *(("authorization_codes", "expires_at"), ("challenges", "expires_at")),
    *(
        ("device_codes", "expires_at"),
        ("email_tokens", "expires_at"),
        ("leases", "until"),
        ("flushes", "at"),
    ),
    *(("pending_sign_ins", "expires_at"), ("provider_visits", "expires_at")),
    *(("shown_once", "expires_at"), ("used_challenges", "expires_at")),
)
"""What lasts briefly, and is begun anew where it is missing."""


async def newest(db: Database) -> int:
    """The newest stored moment, in epoch milliseconds; 0 if there is none."""
    row = await db.slow.one(_NEWEST)
    return int(row[0] or 0) if row else 0


async def correct(tx: Transaction, now: int) -> None:
    """Moves every stored moment that should have passed, and has not, to `now`. What a row with
    such a moment lets expire later expires as much later. Entries of the audit log stay as they
    are."""
    values = {"now": now}
    for table in _CREATED:
        moments = [name for name in table.names if name.endswith("_at")]
        for name in (one for one in moments if one in _LATER):
            sooner = f"UPDATE {table.name} SET {name} = {name} - (created_at - :now)"
            await tx.run(f"{sooner} WHERE created_at > :now AND {name} > :now", values)
        for name in (one for one in moments if one not in _LATER):
            await tx.run(f"UPDATE {table.name} SET {name} = :now WHERE {name} > :now", values)
    for name, column in _PAST:
        await tx.run(f"UPDATE {name} SET {column} = :now WHERE {column} > :now", values)
    for name, column in _BRIEF:
        await tx.run(f"DELETE FROM {name} WHERE {column} > :now", values)
    day, hour, step = now // DAY, now // HOUR, step_of(now)
    # A month's count has the last day of its month, which lies ahead.
    ahead = "DELETE FROM rate_counters WHERE day > :day AND caller NOT LIKE 'month:%'"
    await tx.run(ahead, {"day": day})
    await tx.run("DELETE FROM request_hours WHERE hour > :hour", {"hour": hour})
    await tx.run("DELETE FROM request_days WHERE day > :day", {"day": day})
    used = "UPDATE authenticators SET last_step = :step WHERE last_step > :step"
    await tx.run(used, {"step": step})


async def last_backup(audit: Audit) -> int | None:
    """When the newest backup was made, in epoch milliseconds; None if the audit log has none."""
    newest = await audit.page(AuditFilter(action=BackedUp.action), limit=1)
    return newest[0].at if newest else None


LOOK_PERIOD = 60.0


async def look_for_backup(env: Environment) -> None:
    """Notes the time of the last backup. Raises `Unavailable`."""
    env.backed_up_at = await last_backup(env[Audit]) or env.backed_up_at
