"""Whether this host's secret opens what the database keeps under one, for `portico doctor`."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from portico.cli.findings import Finding, advised, well, wrong
from portico.secret_file import NAME as SECRET
from portico.secret_file import SecretError, found_secret, is_given
from portico.services import post, second_factor, webhooks
from portico.services.signing import opens
from portico.services.vault import Vault
from portico.settings import Settings
from portico.storage.database import Database
from portico.storage.signing_keys import SigningKeys

_TRIED = 1000
"""So many of a kind are tried, from the oldest on: some may have been made anew since."""

_KINDS: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "webhooks": ("id, secret FROM webhooks", lambda _: webhooks.SEALED_AS),
    "authenticator apps": ("user_id, secret FROM authenticators", second_factor.sealed_as),
    "mails that wait": ("id, content FROM mails", lambda _: post.SEALED_AS),
}
"""What is read of each kind, and the name under which it is sealed."""


async def secret(settings: Settings, environment: str, db: Database) -> AsyncIterator[Finding]:
    """Whether a private signing key can be decrypted, and what else is sealed."""
    check = f"{environment} signing keys"
    rows = [row for row in await SigningKeys(db).all() if row.retires_at is None]
    try:
        found = found_secret(settings)  # which makes none
    except SecretError as error:
        yield wrong(check, str(error).rstrip("."), advised(error, "restore it from a backup"))
        return
    file = settings.data / SECRET
    if not rows:
        yield well(check, "none yet: the first start makes one")
    elif found is not None and opens(found, rows):
        yield well(check, f"{len(rows)} published, one of them signs here")
    elif settings.database_url or is_given(settings):
        message = "the database was made with another secret than this host has"
        yield wrong(check, message, "give all hosts the same one by secret_key_file")
    else:
        message = (
            f"{file} does not open the private keys"
            if found
            else f"{file}, which opens the private keys, is gone"
        )
        advice = "put the old file back before a start, which makes a new signing key"
        yield wrong(check, message, advice)
    if closed := await _closed(found, db):
        place = "by secret_key_file" if is_given(settings) else f"as {file}"
        advice = (
            f"give the server the old one {place}; if that is lost, give webhooks new secrets, and"
            " people new authenticator apps (portico users reset-second-factor)"
        )
        message = f"another secret than this host has is needed for: {', '.join(closed)}"
        yield wrong(f"{environment} secrets", message, advice)


async def _closed(secret: bytes | None, db: Database) -> Sequence[str]:
    """The kinds of which something is not under this secret."""
    vault = Vault(lambda: secret or b"", os.urandom)
    closed = []
    for kind, (read, sealed_as) in _KINDS.items():
        rows = await db.slow.all(f"SELECT {read} ORDER BY id LIMIT {_TRIED}")
        if any(vault.open(sealed, sealed_as(number)) is None for number, sealed in rows):
            closed.append(kind)
    return closed
