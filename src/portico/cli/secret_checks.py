"""The check that this host's secrets decrypt what the databases hold, for `portico doctor`."""

import os
from collections.abc import AsyncIterator, Sequence

from portico.cli.findings import Finding, advised, notice, ok, problem
from portico.domain.text import counted
from portico.secret_file import NAME as SECRET
from portico.secret_file import SecretError, Secrets, found_secrets, is_given
from portico.services.sealing import sealed_in
from portico.services.signing import opens
from portico.services.vault import Vault
from portico.settings import Settings
from portico.storage.database import Database
from portico.storage.sealed import COLUMNS
from portico.storage.signing_keys import SigningKey, SigningKeys

_TRIED = 1000
"""With one secret, so many values of a column are tried, from the oldest on: newer ones may have
been encrypted since. While one secret replaces another, all are tried."""

_KINDS = {
    "webhooks": "webhooks",
    "authenticators": "authenticator apps",
    "mails": "waiting mails",
}
"""What messages call the rows of a table. Signing keys have a check of their own."""


async def secret(settings: Settings, environment: str, db: Database) -> AsyncIterator[Finding]:
    """Whether the private signing keys, and everything else that is encrypted, can be decrypted."""
    check = f"{environment} signing keys"
    rows = [row for row in await SigningKeys(db).all() if row.retires_at is None]
    try:
        found = found_secrets(settings)  # creates none
    except SecretError as error:
        yield problem(check, str(error).rstrip("."), advised(error, "restore it from a backup"))
        return
    yield _signing_keys(settings, check, found, rows)
    closed, behind = await _sealed(found or (b"",), db)
    check = f"{environment} secrets"
    if behind:
        message = f"still encrypted under a former secret: {counted(behind, 'value')}"
        advice = "once every server has the new secret first, run portico secret reencrypt"
        yield notice(check, message, advice)
    elif found is not None and len(found) > 1 and not closed:
        message = "everything is encrypted under the first of the secrets"
        yield notice(check, message, "remove the others, and restart the servers")
    if closed:
        place = "by secret_key_file" if is_given(settings) else f"as {settings.data / SECRET}"
        advice = (
            f"give the server the old secret {place}; if that is lost, rotate the secrets of"
            " webhooks, and reset authenticator apps (portico users reset-second-factor)"
        )
        yield problem(check, f"no secret of this host decrypts these: {', '.join(closed)}", advice)


def _signing_keys(
    settings: Settings, check: str, found: Secrets | None, rows: Sequence[SigningKey]
) -> Finding:
    if not rows:
        return ok(check, "none yet: the first start creates one")
    if found is not None and opens(found, rows):
        return ok(check, f"{len(rows)} published, one of them signs here")
    if settings.database_url or is_given(settings):
        message = "the database was made with another secret than this host has"
        return problem(check, message, "give all hosts the same secret by secret_key_file")
    file = settings.data / SECRET
    message = (
        f"{file} does not decrypt the private keys"
        if found
        else f"{file}, which decrypts the private keys, is gone"
    )
    advice = "put the old file back; if no copy is left, start over with portico secret reset"
    return problem(check, message, advice)


async def _sealed(secrets: Secrets, db: Database) -> tuple[list[str], int]:
    """The kinds of values of which some cannot be decrypted with any of these secrets, and how many
    values are encrypted under another secret than the first."""
    vault = Vault(lambda: secrets, os.urandom)
    closed = dict[str, None]()
    behind = 0
    for where in COLUMNS:
        tried = 0
        async for found in sealed_in(db, vault, where):
            behind += sum(one.is_behind for one in found)
            if where.table in _KINDS and any(one.sealed is None for one in found):
                closed[_KINDS[where.table]] = None
            tried += len(found)
            if len(secrets) == 1 and tried >= _TRIED:
                break
    return [*closed], behind
