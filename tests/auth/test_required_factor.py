"""`require_second_factor`: who must have a second factor sets it up before anything else."""

import re
from dataclasses import replace

import pytest

from driving import Api
from owned import sessions_of
from portico.core.audit import OPERATOR
from portico.features.events.audit import Audit
from portico.features.signin.rules import Passkey, step_of
from portico.features.signin.second_factor import Enrolment
from portico.features.signin.service import StepGone
from portico.features.signin.sessions import (
    Browser,
    begin_second_step,
    finish_by_enrolling,
    waiting,
)
from portico.features.signin.storage import FactorStore
from second_factor import (
    CODES,
    HERE,
    KEY,
    SITES,
    Person,
    Way,
    code_of,
    enrolled,
    factored,
    session_in,
)
from signing_in import PASSWORD

pytestmark = pytest.mark.one_engine


@pytest.fixture(params=["/auth/login", "/v1/sessions"])
def way(api: Api, request: pytest.FixtureRequest) -> Way:
    """Each way in of the API."""
    return Way(api, request.param)


@pytest.mark.parametrize(("setting", "held"), [("admins", ["admin"]), ("all", ["admin", "viewer"])])
async def test_api_refuses_accounts_without_a_required_factor(
    api: Api, way: Way, setting: str, held: list[str]
) -> None:
    api.live.settings = replace(api.live.settings, require_second_factor=setting)
    for role in ("admin", "viewer"):
        user = await api.account(role, password=PASSWORD)
        for otp in (None, "123456"):
            answer = await way.send(user, otp)
            assert answer.is_success == (role not in held)
            if role in held:
                assert answer.status_code == 401
                assert "must have a second factor" in answer.json()["error"]["message"]
                (entry,) = await api.live[Audit].page(limit=1)
                assert (entry.action, entry.target_id) == ("second_factor.refused", str(user.id))
        has_one = await factored(api, role=role)
        assert (await way.send(has_one, code_of(api))).is_success


@pytest.mark.parametrize("site", SITES)
async def test_pages_set_up_a_required_factor_before_the_session(api: Api, site: str) -> None:
    name, at = SITES[site]
    env = api.live if name == "live" else api.sandbox
    user = await api.account(env=env, password=PASSWORD)
    person = Person(api, at)
    assert session_in(await person.password(user))
    env.settings = replace(env.settings, require_second_factor="all")
    first = await person.password(user)
    assert first.status_code == 303
    assert not session_in(first)
    path = first.headers["location"].removeprefix(at.removeprefix(HERE))
    wrong = await person.post("/sign-in/code", secret="", otp="000000", name="Phone")
    assert wrong.status_code == 422
    assert not session_in(wrong)
    done = await enrolled(api, person, path)
    assert done.status_code == 303, done.text
    assert session_in(done)
    for _ in range(2):  # the first answer may be lost on the way
        shown = await person.browser.get(HERE + done.headers["location"])
        assert shown.status_code == 200, shown.text
        assert len(re.findall(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){5}", shown.text)) == 10
    assert ("pwd", "otp", "mfa") in [
        session.amr for session in await sessions_of(env, user.id, api.clock())
    ]
    api.clock.advance(seconds=60)
    next_time = Person(api, at)
    await next_time.password(user)
    key: str = person.key  # type: ignore[attr-defined]
    assert session_in(await next_time.post("/sign-in/code", otp=code_of(api, 0, key)))


async def test_passkey_added_meanwhile_is_required(api: Api) -> None:
    api.live.settings = replace(api.live.settings, require_second_factor="all")
    user = await api.account(password=PASSWORD)
    waits = await waiting(api.live, await begin_second_step(api.live, user, OPERATOR))
    assert waits
    key = Passkey(0, user.id, "Key", b"id", b"key", 0, api.clock(), None)
    async with api.live.db.transaction() as tx:
        await api.live[FactorStore].add_passkey(tx, key)
    app = Enrolment(KEY, step_of(api.clock()), "Phone", CODES)
    async with api.unchanged():
        with pytest.raises(StepGone):
            await finish_by_enrolling(api.live, waits, app, OPERATOR, Browser("", None))
