"""Signing of JSON Web Tokens (RFC 7519), with RS256 only, and rotation of the keys.

A new key is published at once, but signs only after clients that cache the published keys have had
time to fetch it. Older keys stay published until the last token that they signed has expired.
"""

import os
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.errors import Unavailable
from portico.core.oauth import ACCESS_SECONDS
from portico.core.secrets import from_base64url
from portico.core.times import SECOND
from portico.data.vault import Vault
from portico.environment import Environment
from portico.features.access.storage import SIGNING_KEYS, Grants, SigningKey, SigningKeys
from portico.features.signin.rules import SigningKeyCreated

ALGORITHM = "RS256"
ACCESS_TOKEN_TYPE = "at+jwt"  # noqa: S105 - the `typ` of one (RFC 9068 §2.1)
KEY_BITS = 2048
PUBLISHED_SECONDS = 900
"""How long clients may cache the published keys, and so how long a new key does not sign yet."""

MAX_LENGTH = 4_096
"""The longest token that is parsed, in characters."""


class Signer:
    """Signs and verifies with the keys of one environment. All of them are published; those that
    the installation's secret can decrypt sign."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._version = -1
        self._rows: list[SigningKey] = []
        self._public: dict[str, RSAKey] = {}
        self._private: dict[str, RSAKey | None] = {}

    async def ready(self) -> None:
        """Creates the first signing key if there is none; it signs at once. Raises `Unavailable` if
        the existing keys are encrypted under another secret."""
        await self._refresh()
        if self._opens():
            return
        key = self._generate()

        async def work(change: Change) -> None:
            self._take(await self._env[SigningKeys].locked(change.tx))
            if not self._opens():
                await self._add(change, key, change.now)

        await self._env.change(SYSTEM, work)
        await self._refresh()

    def _opens(self) -> bool:
        """Whether there is a key to sign with. Raises `Unavailable` as `ready` does."""
        if self._signing() is not None:
            return True
        if self._rows:
            raise wrong_secret()
        return False

    async def start_over(self, by: Author) -> str | None:
        """Creates a signing key, which signs at once, and returns its `kid`. Changes nothing and
        returns None if this host's secret decrypts one of the existing keys.

        For an installation that has lost its secret. Tokens that the existing keys have signed stay
        valid until they expire.
        """
        key = self._generate()

        async def work(change: Change) -> str | None:
            self._take(await self._env[SigningKeys].locked(change.tx))
            if self._signing() is not None:
                return None
            made = await self._add(change, key, change.now)
            last = change.now + ACCESS_SECONDS * SECOND
            await self._env[SigningKeys].retire_others(change.tx, made.id, last)
            return made.kid

        return await self._env.change(by, work)

    def sign(self, claims: dict[str, Any], now: int, typ: str = "JWT") -> str:
        """A token with these claims and those of every token: `iss`, `iat`, and `exp` an hour
        later unless they have one. Our own API takes only the `typ` JWT. Call `ready` first."""
        row = self._signing()
        key = self._unsealed(row) if row else None
        if row is None or key is None:
            raise RuntimeError("there is no key to sign with")
        issued = now // SECOND
        own = {"iss": self._env.addresses.auth, "iat": issued, "exp": issued + ACCESS_SECONDS}
        header = {"alg": ALGORITHM, "typ": typ, "kid": row.kid}
        return jwt.encode(header, {**own, **claims}, key, algorithms=[ALGORITHM])

    async def verify(self, token: str, *, audience: str, now: int) -> bool:
        """Whether we issued a token for this audience and it has not expired (RFC 8725)."""
        kid = _kid(token)
        if kid is None:
            return False
        await self._refresh()
        claims = self._claims(token, kid)
        if claims is None or kid not in {row.kid for row in self._published(now)}:
            return False
        return claims.aud == audience and now < claims.exp * SECOND

    async def claims_of(self, token: str) -> "Claims | None":
        """The claims of a token that we issued, for whomever, even if it has expired; None for
        anything else."""
        kid = _kid(token)
        if kid is None:
            return None
        await self._refresh()
        return self._claims(token, kid)

    def _claims(self, token: str, kid: str) -> "Claims | None":
        key = self._public.get(kid)
        if key is None:
            return None
        try:
            signed = jws.deserialize_compact(token, key, algorithms=[ALGORITHM])
            claims = msgspec.json.decode(signed.payload, type=Claims)
        except (JoseError, ValueError):
            return None
        return claims if claims.iss == self._env.addresses.auth else None

    async def published(self) -> list[dict[str, Any]]:
        """The public keys as JWKs (RFC 7517), newest first."""
        await self._refresh()
        rows = reversed(self._published(self._env.clock()))
        return [msgspec.json.decode(row.public_key) for row in rows]

    async def rotate(self, by: Author, *, at_once: bool = False) -> SigningKey:
        """Creates the next key and retires the present ones once their tokens have expired.

        With `at_once`, for a leaked key, it signs now and tokens of the other keys fail now. Raises
        `Unavailable` if the present keys are encrypted under another secret: a server that has that
        secret could not sign with the next key.
        """
        await self._refresh()
        if self._rows and self._signing() is None:
            raise wrong_secret()
        key = self._generate()

        async def work(change: Change) -> SigningKey:
            keys, now = self._env[SigningKeys], change.now
            await keys.locked(change.tx)
            signs_at = now if at_once else now + PUBLISHED_SECONDS * SECOND
            made = await self._add(change, key, signs_at)
            # 0 is in the past by every host's clock.
            last = 0 if at_once else signs_at + ACCESS_SECONDS * SECOND
            await keys.retire_others(change.tx, made.id, last)
            if at_once:  # open streams and running changes check the tokens' rows, not the keys
                await self._env[Grants].end_access_of_logins(change.tx, now)
            return made

        return await self._env.change(by, work)

    def _generate(self) -> SigningKey:
        """A new key that is not stored yet."""
        key = RSAKey.generate_key(KEY_BITS, private=True)
        kid = urlsafe_b64encode(self._env.random(12)).decode()
        public = {**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": ALGORITHM}
        sealed = self._env[Vault].seal(key.as_pem(private=True), kid)
        return SigningKey(0, kid, msgspec.json.encode(public).decode(), sealed, 0, 0, None)

    async def _add(self, change: Change, key: SigningKey, signs_at: int) -> SigningKey:
        key = msgspec.structs.replace(key, created_at=change.now, signs_at=signs_at)
        made = await self._env[SigningKeys].insert(change.tx, key)
        change.note(SigningKeyCreated(key.kid, at_once=signs_at == change.now))
        return made

    async def _refresh(self) -> None:
        version = self._env.db.version(SIGNING_KEYS.dependency())
        if version != self._version:
            self._take(await self._env[SigningKeys].all())
            self._version = version

    def _take(self, rows: list[SigningKey]) -> None:
        self._rows = rows
        for row in rows:
            if row.kid not in self._public:
                self._public[row.kid] = RSAKey.import_key(msgspec.json.decode(row.public_key))

    def _published(self, now: int) -> list[SigningKey]:
        return [row for row in self._rows if row.retires_at is None or now < row.retires_at]

    def _signing(self) -> SigningKey | None:
        """The newest key that may sign by now, can be decrypted here, and stays published for as
        long as a token that it signs is valid. If none may sign by now, because this clock is
        behind that of the host that created the first one, the oldest: clients have known it
        longest."""
        now = self._env.clock()
        stay = self._published(now + ACCESS_SECONDS * SECOND - 1)
        usable = [row for row in stay if self._unsealed(row) is not None]
        due = [row for row in usable if row.signs_at <= now]
        return due[-1] if due else min(usable, key=lambda row: row.id, default=None)

    def _unsealed(self, row: SigningKey) -> RSAKey | None:
        if row.kid not in self._private:
            pem = self._env[Vault].open(row.private_key, row.kid)
            self._private[row.kid] = None if pem is None else _private_key(pem)
        return self._private[row.kid]


def opens(secrets: Sequence[bytes], keys: Iterable[SigningKey]) -> bool:
    """Whether one of these keys, of those without a successor, is encrypted under one of these
    secrets."""
    vault = Vault(lambda: secrets, os.urandom)
    return any(vault.open(key.private_key, key.kid) for key in keys if key.retires_at is None)


def wrong_secret() -> Unavailable:
    """The error for a database that was created with another secret."""
    return Unavailable(
        "The database was made with another secret than this host has. Set secret_key_file"
        " (PORTICO_SECRET_KEY_FILE) or PORTICO_SECRET_KEY to the same one, or put back secret.key"
        " in the data directory: another host or a backup has a copy. If there is no copy, start"
        " over with portico secret reset."
    )


def _private_key(pem: bytes) -> RSAKey:
    """Loads a key that the vault has authenticated. Checking again that its factors are prime would
    take a tenth of a second at every start."""
    key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    return RSAKey.import_key(cast(RSAPrivateKey, key))


class Claims(msgspec.Struct):
    """The claims of a login or an ID token that matter here."""

    iss: str
    aud: str
    sub: str
    exp: int
    sid: str | None = None


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly the header that we write: one that carries a key or `crit` is refused (RFC 8725
    §3)."""

    alg: str
    kid: str
    typ: str


class _Issued(msgspec.Struct):
    iss: str


S = TypeVar("S", bound=msgspec.Struct)


def unverified(token: str, part: int, shape: type[S]) -> S | None:
    """The header (0) or the claims (1) of a token that nobody has verified; None if they cannot be
    read."""
    parts = token.split(".", 3)
    if len(token) > MAX_LENGTH or len(parts) != 3:
        return None
    try:
        return msgspec.json.decode(from_base64url(parts[part]), type=shape)
    except (ValueError, RecursionError):
        return None


def claimed_issuer(token: str) -> str | None:
    """The `iss` of a token that is not verified."""
    claims = unverified(token, 1, _Issued)
    return None if claims is None else claims.iss


def is_access_token(token: str) -> bool:
    """Whether this claims to be a JWT access token (RFC 9068)."""
    header = unverified(token, 0, _Header)
    return header is not None and header.typ == ACCESS_TOKEN_TYPE


def _kid(token: str) -> str | None:
    """The `kid` of a token, if its header is one of ours."""
    header = unverified(token, 0, _Header)
    return header.kid if header and header.alg == ALGORITHM and header.typ == "JWT" else None
