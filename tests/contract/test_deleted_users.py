"""What stays of a deleted user is what the operator's guide says (docs/operations/data.md)."""

from collections.abc import AsyncIterator

from documents import document
from driving import Api
from operating import eventually
from portico.change import Change
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.providers import Person, Provider, ProviderVisit
from portico.features.access.clients import Registration, register_client
from portico.features.mail.letters import decrypted
from portico.features.mail.sending import SendMails
from portico.features.people.invitations import invite
from portico.features.people.storage import Users
from portico.features.signin.providers import Known, await_link, link
from portico.features.signin.rules import Passkey
from portico.features.signin.second_factor import Enrolment, add_authenticator
from portico.features.signin.storage import FactorStore
from portico.outbound.mail import Letter, Undelivered
from portico.resource.uploads import take_in
from second_factor import CODES, KEY
from signing_in import CALLBACK, PASSWORD, SCOPES, Visitor, tokens_of

ADDRESS, NETWORK, EMAIL = "198.51.100.77", "203.0.113.0/24", "canary@person.example"
TRACES = ("canary", ADDRESS, NETWORK)
"""What all that belongs to the user has in it, one or another."""

_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'",
    "postgres": "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
    " AND NOT relispartition AND relnamespace = to_regnamespace(current_schema())",
}


async def tables_with_traces(api: Api) -> set[str]:
    """The tables of either environment that have a trace in a row."""
    found = set()
    for env in api.portico.environments:
        for (table,) in await env.db.all(_TABLES[env.db.engine]):
            rows = await env.db.all(f'SELECT * FROM "{table}"')  # noqa: S608 - our own table
            held = " ".join(repr(tuple(row)) for row in rows).lower()
            if table == "mails":
                held = " ".join(repr(decrypted(env, row[1])) for row in rows).lower()
            if any(trace in held for trace in TRACES):
                found.add(table)
    return found


async def a_file() -> AsyncIterator[bytes]:
    yield b'{"name": "Lamp"}\n'


async def live_fully(api: Api, user_id: int) -> None:
    """Has the user leave a trace wherever one can."""
    user = await api.live[Users].get(user_id)
    assert user is not None
    by = Author(Actor(user.id, user.email, "session", address=ADDRESS))
    home = Visitor(api, ADDRESS)
    assert (await home.log_in(EMAIL, user_agent="Canary/1.0")).status_code == 200
    assert (await home.log_in(EMAIL, "a wrong one")).status_code == 401
    assert (await home.open_session(EMAIL, user_agent="Canary/1.0")).status_code == 201
    client = await register_client(
        api.live, user, Registration("Canary app", (CALLBACK,), SCOPES), public=False, by=by
    )
    await tokens_of(api.live, client.client, user)
    caller = await api.caller(user=user)
    key = {"name": "Canary key", "type": "live", "networks": [NETWORK]}
    assert (await caller.post("/api-keys", json=key)).status_code == 201
    await api.caller(user=user, key_type="test")  # and so a mirror user in the sandbox
    await take_in(
        api.live, user.id, "products", "canary.ndjson", a_file(), by, updates=lambda: False
    )
    provider = Provider(
        name="corp", issuer="https://idp.test", client_id="p", client_secret="-", label="Corp"
    )
    person = Person("canary-1", EMAIL, email_verified=True, name="Canary")
    visit = ProviderVisit("corp", "/", None, None, "", 0)
    await await_link(api.live, provider, Known(person, None, visit, again=False), by)
    await link(api.live, provider, person, user.id, by)
    app = Enrolment(KEY, 0, "Canary phone", CODES)
    passkey = Passkey(0, user.id, "Canary", b"id", b"key", 0, api.clock(), None)

    async def add_factors(change: Change) -> None:
        await add_authenticator(api.live, change, user, app)
        await api.live[FactorStore].add_passkey(change.tx, passkey)

    await api.live.change(by, add_factors)


class Away:
    """A mail server that does not answer."""

    async def send(self, _: Letter) -> None:
        raise Undelivered("it is away", lasting=False)


async def test_traces_of_a_deleted_user_are_those_the_guide_lists(api: Api) -> None:
    outlet, api.live.outlet = api.live.outlet, Away()
    admin = await api.caller("admin")
    await invite(api.live, email=EMAIL, role="admin", plan="free", handed_over=True, by=OPERATOR)
    person = {"name": "Canary", "email": EMAIL, "role": "editor", "password": PASSWORD}
    made = await admin.post("/users", json=person, headers={"idempotency-key": "one"})
    user_id = made.json()["data"]["id"]
    await live_fully(api, user_id)
    before = await tables_with_traces(api)
    assert {"users", "api_keys", "sessions", "grants", "known_addresses", "invitations"} <= before
    assert {"authenticators", "passkeys", "provider_links"} <= before
    changed = await admin.patch(f"/users/{user_id}", json={"email": f"new.{EMAIL}"})
    assert changed.status_code == 200
    await SendMails(api.live).flush()

    assert (await admin.delete(f"/users/{user_id}")).status_code == 204

    told = {table for table, *_ in document("docs/operations/data.md").rows("left")}
    if api.settings.valkey_url is not None:
        told.remove("rate_counters")

    async def is_told() -> bool:
        return await tables_with_traces(api) == told

    await eventually(is_told, f"a trace in {told} alone")
    api.live.outlet = outlet
    api.clock.advance(seconds=3600)
    await api.mailed()
    assert "mails" not in await tables_with_traces(api)
    mails = (api.settings.data / "log").glob("*.eml")
    assert not any("canary" in mail.read_text().lower() for mail in mails)
