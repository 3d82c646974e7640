"""What ends or changes a credential does so on every host.

Two hosts have one database. The one that writes hears of nothing, so it must know by itself what it
has written; the other knows it by notices alone. Their seconds stand still, so that nothing is
forgotten but what is told.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count

import asyncpg
import pytest

from driving import Api, settings_for
from endings import Credentials
from operating import eventually
from portico.core.audit import OPERATOR
from portico.core.caller import Principal
from portico.data.postgres.engine import PostgresDatabase
from portico.data.postgres.notices import TRUST_SECONDS
from portico.engines import database_schema
from portico.features.access.clients import PageOrigins, Registration, register_client
from portico.features.access.credentials import Credentials as Cache
from portico.features.access.signing import Signer
from portico.settings import Settings
from shared_database import SharedDatabase

END_LISTENERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'portico'
    AND (query LIKE 'LISTEN%' OR query = 'SELECT 1')"""


@dataclass
class Seconds:
    """Stand still until a test moves them."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Hosts:
    """One that writes and hears nothing, one that hears, and the seconds of both."""

    here: Api
    there: Api
    seconds: Seconds
    credentials: Cache
    """Those of the other host."""
    administrator: asyncpg.Connection

    async def principal(self, token: str) -> Principal:
        """Whom the other host takes a token for."""
        now = self.there.clock()
        known = self.credentials.known(token, now)
        return known or await self.credentials.look_up(token, now)

    def known(self, token: str) -> bool:
        """Whether the other host needs to read nothing for it."""
        return self.credentials.known(token, self.there.clock()) is not None

    async def told(self) -> None:
        """Returns once the other host has heard of all that was committed before."""
        fence = await self.here.caller("viewer")
        await self.principal(fence.key)
        await self.administrator.execute(
            "UPDATE portico_live.api_keys SET scopes = '' WHERE id = $1", fence.record.id
        )
        await self.forgets(fence.key)

    async def forgets(self, token: str) -> None:
        """Returns once the other host has to read whose it is."""
        await eventually(lambda: not self.known(token))

    async def forgets_session(self, cookie: str) -> None:
        """As `forgets`."""
        now = self.there.clock()
        await eventually(lambda: self.credentials.known_session(cookie, now) is None)


class Deaf(PostgresDatabase):
    """It is told nothing of what others commit, as where the network loses it."""

    def _heard(self, _connection: object, _pid: int, _channel: str, _text: str) -> None:
        pass


@pytest.fixture(scope="module")
async def hosts(
    shared_database: SharedDatabase,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Hosts]:
    """Two of them, which share a database."""
    await shared_database.empty()
    seconds, numbers = Seconds(), count(1)

    def database(_: Settings, environment: str, **_create: bool) -> PostgresDatabase:
        kind = Deaf if next(numbers) <= 2 else PostgresDatabase
        url, schema = shared_database.url, database_schema(environment)
        return kind(url, schema, listen_url=url, clock=seconds)

    settings = settings_for(
        tmp_path_factory.mktemp("hosts"), {"PORTICO_DATABASE_URL": shared_database.url}
    )
    here, there = Api(settings), Api(settings, seed=1)
    administrator = await asyncpg.connect(
        shared_database.url, server_settings={"search_path": "portico_live"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portico.app.database", database)
        for host in (here, there):
            await host.start()
            await eventually(host.live.db.listening)
    yield Hosts(here, there, seconds, Cache(there.live), administrator)
    await administrator.close()
    for host in (here, there):
        await host.aclose()
        await host.stop()


CHANGES = [
    "UPDATE users SET role = 'viewer' WHERE id = $1",
    "UPDATE users SET plan = 'tiny' WHERE id = $1",
    "UPDATE users SET name = 'Another' WHERE id = $1",
    "UPDATE users SET email = 'another@example.com' WHERE id = $1",
    "UPDATE users SET suspended_at = 1 WHERE id = $1",
    "DELETE FROM users WHERE id = $1",
    "UPDATE api_keys SET type = 'read' WHERE user_id = $1",
    "UPDATE api_keys SET key_hash = '' WHERE user_id = $1",
    "UPDATE api_keys SET expires_at = 1 WHERE user_id = $1",
    "UPDATE api_keys SET revoked_at = 1 WHERE user_id = $1",
    "UPDATE api_keys SET scopes = 'read:products' WHERE user_id = $1",
    "UPDATE api_keys SET networks = '192.0.2.0/24' WHERE user_id = $1",
    "DELETE FROM api_keys WHERE user_id = $1",
]
"""By hand, as whoever has the database may do it."""

NO_CHANGES = [
    "UPDATE users SET last_login_at = 1, theme = 'dark', password_hash = '' WHERE id = $1",
    "UPDATE api_keys SET last_used_at = 1, reminded_at = 1 WHERE user_id = $1",
    "UPDATE grants SET last_used_at = 1 WHERE user_id = $1",
    "UPDATE tokens SET used_at = 1 WHERE $1 > 0",
    "UPDATE sessions SET last_seen_at = 1 WHERE user_id = $1",
    "UPDATE products SET price = 2 WHERE $1 > 0",
]


async def test_only_columns_that_decide_about_a_key_invalidate_it_on_other_hosts(
    hosts: Hosts,
) -> None:
    await hosts.here.product()
    for change in CHANGES:
        caller, other = await hosts.here.caller("editor"), await hosts.here.caller("editor")
        await hosts.principal(other.key)
        for number, sql in enumerate((*NO_CHANGES, change)):
            await hosts.principal(caller.key)
            await hosts.administrator.execute(sql, caller.user.id)
            if number + 1 == len(NO_CHANGES):
                await hosts.told()
                assert hosts.known(caller.key)
        await hosts.forgets(caller.key)
        await hosts.told()


OF_USER = "IN (SELECT id FROM grants WHERE user_id = $1)"
CHANGES_OF_TOKENS = [
    f"UPDATE tokens SET access_expires_at = 1 WHERE grant_id {OF_USER}",  # noqa: S608 - constants
    f"UPDATE tokens SET scopes = '' WHERE grant_id {OF_USER}",  # noqa: S608 - the same
    f"UPDATE tokens SET access_hash = id::text::bytea WHERE grant_id {OF_USER}",  # noqa: S608 - the same
    f"DELETE FROM tokens WHERE grant_id {OF_USER}",  # noqa: S608 - the same
    "UPDATE grants SET revoked_at = 1 WHERE user_id = $1",
    "DELETE FROM grants WHERE user_id = $1",
]
CHANGES_OF_SESSIONS = [
    "UPDATE sessions SET token_hash = id::text::bytea WHERE user_id = $1",
    "UPDATE sessions SET expires_at = 1 WHERE user_id = $1",
    "DELETE FROM sessions WHERE user_id = $1",
]


async def test_changed_tokens_and_sessions_are_invalidated_on_other_hosts(hosts: Hosts) -> None:
    now = hosts.there.clock()
    for sql in CHANGES_OF_TOKENS:
        held = await Credentials.of_new_user(hosts.here)
        token = held.grant.access_token
        await hosts.principal(token)
        await hosts.administrator.execute(sql, held.user.id)
        await hosts.forgets(token)
    for sql in CHANGES_OF_SESSIONS:
        held = await Credentials.of_new_user(hosts.here)
        session = held.session
        await hosts.credentials.look_up_session(session, now)
        await hosts.administrator.execute(sql, held.user.id)
        await hosts.forgets_session(session)


async def test_origins_and_signing_keys_are_invalidated_on_other_hosts(hosts: Hosts) -> None:
    here, there = hosts.here, hosts.there
    page = "https://shop.example"
    there_origins, here_origins = PageOrigins(there.live), PageOrigins(here.live)
    published = await there.live[Signer].published()
    assert not await there_origins.has(page)
    assert not await here_origins.has(page)
    wanted = Registration("Shop", [f"{page}/callback"], "read:products")
    await register_client(here.live, None, wanted, public=True, by=OPERATOR)
    assert await here_origins.has(page)
    await here.live[Signer].rotate(OPERATOR)
    await hosts.told()
    assert await there_origins.has(page)
    assert len(await there.live[Signer].published()) == len(published) + 1
    await hosts.administrator.execute("DELETE FROM oauth_clients")
    await hosts.told()
    assert not await there_origins.has(page)


REVOKE = "UPDATE api_keys SET revoked_at = 1 WHERE id = {}; "


async def miss_one(hosts: Hosts, key_id: int) -> None:
    """The notice does not come, though all seems well."""
    sql = f"BEGIN; SET LOCAL session_replication_role = 'replica'; {REVOKE.format(key_id)}"
    sql += " UPDATE notices SET number = number + 1; COMMIT"  # as if it had been told
    await hosts.administrator.execute(sql)


async def test_missed_notice_is_detected_within_a_second(hosts: Hosts) -> None:
    caller, other = await hosts.here.caller("viewer"), await hosts.here.caller("viewer")
    await hosts.told()
    for key in (caller.key, other.key):
        await hosts.principal(key)
    await miss_one(hosts, caller.record.id)
    hosts.seconds.now += TRUST_SECONDS
    assert not hosts.known(caller.key)
    assert not hosts.known(other.key)
    await eventually(hosts.there.live.db.listening)  # it has looked, and goes on from there
    await hosts.principal(other.key)
    assert hosts.known(other.key)
    await hosts.told()
    assert hosts.known(other.key)


async def test_lost_connection_invalidates_cached_credentials(
    hosts: Hosts,
) -> None:
    caller = await hosts.here.caller("viewer")
    await hosts.principal(caller.key)
    sql = f"BEGIN; {END_LISTENERS}; {REVOKE.format(caller.record.id)} COMMIT"
    await hosts.administrator.execute(sql)
    await hosts.forgets(caller.key)
    await eventually(hosts.there.live.db.listening)
    assert not hosts.known(caller.key)
    await hosts.told()


async def test_host_without_notices_trusts_its_cache_for_a_second(
    hosts: Hosts,
) -> None:
    """The host that hears nothing, and that another one's changes do not reach."""
    caller = await hosts.here.caller("viewer")
    assert (await caller.get("/users/me")).status_code == 200
    await hosts.administrator.execute(REVOKE.format(caller.record.id))
    hosts.seconds.now += TRUST_SECONDS
    assert (await caller.get("/users/me")).status_code == 401
