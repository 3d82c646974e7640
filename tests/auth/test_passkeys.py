"""Passkeys: registered, used, counted, and believed once, whatever key an authenticator has."""

import json
import re
from os import urandom
from pathlib import Path
from typing import Any

import pytest

from driving import Api, settings_for
from owned import keys_of, sessions_of
from passkey_device import (
    BACKED_UP,
    ELIGIBLE,
    PRESENT,
    VERIFIED,
    Authenticator,
    b64,
    options_in,
    owner,
    raw,
    register,
    sign_in_by,
)
from portico.core.audit import OPERATOR
from portico.core.errors import Conflict
from portico.features.events.audit import Audit
from portico.features.operations.tidy import Tidy
from portico.features.people.accounts import suspend
from portico.features.signin.second_factor import remove_factor, reset_factors
from portico.features.signin.storage import FactorStore
from second_factor import (
    DASHBOARD,
    HERE,
    Person,
    Way,
    csrf_in,
    enrolled,
    refused_for_otp,
    session_in,
)
from signing_in import PASSWORD

pytestmark = pytest.mark.one_engine


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256"])
async def test_passkey_signs_in_without_a_password(api: Api, algorithm: str) -> None:
    device = Authenticator(algorithm)
    user, person, _ = await owner(api, device)
    api.clock.advance(seconds=1)
    for at in (DASHBOARD, f"{HERE}/auth"):
        answer = await sign_in_by(api, device, at)
        assert answer.status_code == 303, answer.text
        assert session_in(answer)
    sessions = await sessions_of(api.live, user.id, api.clock())
    assert {session.amr for session in sessions} == {("pop", "user", "mfa")}
    page = (await person.browser.get(f"{DASHBOARD}/security")).text
    assert "Laptop" in page


async def test_passkey_options_require_a_resident_key_and_verification(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    person = Person(api, DASHBOARD)
    await person.password(user)
    options = options_in(await person.browser.get(f"{DASHBOARD}/security/passkey"))
    assert options["rp"]["id"] == "localhost"
    assert options["authenticatorSelection"]["residentKey"] == "required"
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [-8, -7, -257]
    assert user.email.encode() not in raw(options["user"]["id"])
    asked = options_in(await Person(api, DASHBOARD).browser.get(f"{DASHBOARD}/sign-in"))
    assert asked["userVerification"] == "required"
    assert not asked.get("allowCredentials")


async def test_passkeys_are_offered_only_on_hosts_of_the_relying_party(tmp_path: Path) -> None:
    for dashboard, offered in (("https://portico.test", True), ("https://dash.test", False)):
        hosts = {
            "PORTICO_DASHBOARD_URL": dashboard,
            "PORTICO_AUTH_URL": "https://auth.portico.test",
        }
        data = tmp_path / str(offered)
        data.mkdir()
        async with Api(settings_for(data, hosts)) as api:
            at_home = await api.stranger().get(f"{dashboard}/sign-in")
            assert "data-passkey=" in at_home.text
            page = await api.stranger().get("https://auth.portico.test/sign-in")
            assert page.status_code == 200
            assert ("data-passkey=" in page.text) == offered


async def test_api_sign_in_with_passkeys_alone_is_refused_with_the_reason(api: Api) -> None:
    user, person, codes = await owner(api, Authenticator())
    for path in ("/auth/login", "/v1/sessions"):
        for otp in (None, "123456", codes[0]):
            answer = await Way(api, path).send(user, otp)
            assert answer.status_code == 401
            assert "passkey" in answer.json()["error"]["message"]
            (entry,) = await api.live[Audit].page(limit=1)
            assert (entry.action, entry.target_id) == ("second_factor.refused", str(user.id))
    await enrolled(api, person, "/security/app")
    (session,) = await sessions_of(api.live, user.id, api.clock())
    assert session.amr == ("pop", "user", "mfa"), "no password was typed since"
    refused_for_otp(await Way(api, "/auth/login").send(user))


async def test_passkey_or_recovery_code_completes_a_password_sign_in(api: Api) -> None:
    device = Authenticator()
    user, _, codes = await owner(api, device)
    person = Person(api, DASHBOARD)
    first = await person.password(user)
    assert "/sign-in/code" in first.headers["location"]
    assert not session_in(first)
    page = await person.browser.get(HERE + first.headers["location"])
    answer = await person.post("/sign-in/passkey", credential=device.get(options_in(page)))
    assert session_in(answer)
    other = Person(api, DASHBOARD)
    await other.password(user)
    assert (await other.post("/sign-in/code", otp="000000")).status_code == 422
    assert session_in(await other.post("/sign-in/code", otp=codes[0]))


async def test_assertion_is_accepted_once_and_for_ten_minutes(api: Api) -> None:
    device = Authenticator()
    await owner(api, device)
    api.clock.advance(seconds=300)
    person = Person(api, DASHBOARD)
    options = options_in(await person.browser.get(f"{DASHBOARD}/sign-in"))
    answer = device.get(options)
    api.clock.advance(seconds=-3)  # as of another host
    assert session_in(await person.post("/sign-in/passkey", credential=answer))
    api.clock.advance(seconds=597)
    await Tidy(api.live, "test").run()
    replayed = device.get(options)
    for credential in (answer, replayed):
        async with api.unchanged(but="audit"):
            again = await person.post("/sign-in/passkey", credential=credential)
        assert again.status_code == 422
        assert not session_in(again)
    options = options_in(await Person(api, DASHBOARD).browser.get(f"{DASHBOARD}/sign-in"))
    api.clock.advance(seconds=600)
    late = await person.post("/sign-in/passkey", credential=device.get(options))
    assert late.status_code == 422


async def test_expired_challenge_is_replaced(api: Api) -> None:
    device, second = Authenticator(), Authenticator("EdDSA")
    user, _, _ = await owner(api, device)
    person = Person(api, DASHBOARD)
    options = await person.browser.get(f"{DASHBOARD}/sign-in/passkey/options")
    assert options.headers["cache-control"] == "no-store"
    assert session_in(await person.post("/sign-in/passkey", credential=device.get(options.json())))
    page = await person.browser.get(f"{DASHBOARD}/security/passkey")
    csrf = csrf_in(page)
    api.clock.advance(seconds=600)
    renewed = await person.browser.get(f"{DASHBOARD}/security/passkey/options")
    for challenge, passkeys in ((options_in(page), 1), (renewed.json(), 2)):
        form = {"csrf": csrf, "name": "Key", "credential": second.create(challenge)}
        await person.post("/security/passkey", **form)
        assert len((await api.live[FactorStore].of_user(user.id)).passkeys) == passkeys
    stranger = await Person(api, DASHBOARD).browser.get(f"{DASHBOARD}/security/passkey/options")
    assert "/sign-in" in stranger.headers["location"]


LIES: list[dict[str, Any]] = [
    {"origin": "https://evil.test"},
    {"rp": "evil.test"},
    {"flags": PRESENT},
    {"flags": VERIFIED},
    {"flags": PRESENT | VERIFIED | BACKED_UP},
    {"framed": {"type": "webauthn.create"}},
    {"framed": {"crossOrigin": True}},
    {"framed": {"crossOrigin": False, "topOrigin": "https://evil.test"}},
    {"id": b"unknown"},
    {"sign": lambda _data: b"x" * 70},
]


async def test_invalid_assertion_is_refused(api: Api) -> None:
    device = Authenticator()
    await owner(api, device)
    honest = vars(device).copy()
    async with api.unchanged():
        for lie in LIES:
            vars(device).clear()
            vars(device).update(honest | lie)
            answer = await sign_in_by(api, device)
            assert answer.status_code == 422, lie
            assert "was not accepted" in answer.text
            assert not session_in(answer)


DEEP = '{"x":' + "[" * 3_000
JUNK = ["", "{}", "null", "é", '{"id": 1}', '{"id": "é"}', "[" * 9, DEEP]
JUNK.append(json.dumps({"id": "x", "response": {"clientDataJSON": b64(DEEP.encode())}}))


async def test_malformed_assertion_is_refused(api: Api) -> None:
    async with api.unchanged():
        for text in JUNK:
            answer = await Person(api, DASHBOARD).post("/sign-in/passkey", credential=text)
            assert answer.status_code == 422, text[:20]


async def test_passkey_of_a_suspended_account_is_refused_and_audited(api: Api) -> None:
    device = Authenticator()
    user, _, _ = await owner(api, device)
    await suspend(api.live, user.id, OPERATOR)
    async with api.unchanged(but="audit"):
        answer = await sign_in_by(api, device)
    assert answer.status_code == 422
    assert "suspended" in answer.text
    (entry,) = await api.live[Audit].page(limit=1)
    assert (entry.action, entry.target_id) == ("sign_in.refused", str(user.id))
    assert (entry.credential, entry.details) == ("passkey", '{"suspended":true}')
    assert (entry.user_id, entry.address) == (None, "127.0.0.1")
    device.sign = lambda _data: b"x" * 70
    async with api.unchanged():
        assert "suspended" not in (await sign_in_by(api, device)).text


@pytest.mark.parametrize("by", [1, 2], ids=["stayed", "went back"])
async def test_assertion_with_an_old_count_is_refused_and_audited(api: Api, by: int) -> None:
    device = Authenticator()
    await owner(api, device)
    for _ in range(3):
        assert session_in(await sign_in_by(api, device))
    device.count -= by
    async with api.unchanged(but="audit"):
        assert (await sign_in_by(api, device)).status_code == 422
    (row,) = await api.live.db.all("SELECT count(*) FROM audit WHERE action = 'passkey.refused'")
    assert row[0] == 1


async def test_passkey_is_registered_by_the_session_of_its_challenge_alone(api: Api) -> None:
    user = await api.account(password=PASSWORD)
    one, other = Person(api, DASHBOARD), Person(api, DASHBOARD)
    await one.password(user)
    await other.password(user)
    asked = options_in(await one.browser.get(f"{DASHBOARD}/security/passkey"))
    async with api.unchanged():
        stolen = await register(other, Authenticator(), credential=Authenticator().create(asked))
        assert stolen.status_code == 422
        unverified = Authenticator()
        unverified.flags = PRESENT
        assert (await register(other, unverified)).status_code == 422
    device = Authenticator()
    assert (await register(one, device)).status_code == 303
    async with api.unchanged():
        assert (await register(one, device)).status_code == 409, "known already"


NO_PASSKEYS: list[dict[str, Any]] = [
    {"id": bytes(1024)},
    {"attested": ("android-safetynet", {"ver": "1", "response": 5})},
    {"attested": ("tpm", {"ver": "2.0", "alg": -257, "sig": b"", "certInfo": b"", "x5c": [b""]})},
    {"cose": {1: [], 3: []}},
    {"cose": 5},
    {"cose": {1: 3, 3: -257, -1: b"\xff" * 2048, -2: b"\x01\x00\x01"}},
    {"framed": {"crossOrigin": True}},
    {"framed": {"topOrigin": "https://evil.test"}},
    {"framed": {"type": "webauthn.get"}},
    {"origin": "https://evil.test"},
    {"rp": "evil.test"},
    {"flags": VERIFIED},
    {"flags": PRESENT},
    {"flags": PRESENT | VERIFIED | BACKED_UP},
    {"cose": {1: 2, 3: -35, -1: 2, -2: bytes(48), -3: bytes(48)}},  # ES384, not offered
]


async def test_invalid_attestation_is_not_registered(api: Api) -> None:
    person = Person(api, DASHBOARD)
    await person.password(await api.account(password=PASSWORD))
    async with api.unchanged():
        for change in NO_PASSKEYS:
            device = Authenticator()
            vars(device).update(change)
            answer = await register(person, device)
            assert answer.status_code == 422, change
            assert "was not accepted" in answer.text
    synced = Authenticator("EdDSA")
    synced.flags |= ELIGIBLE | BACKED_UP
    assert (await register(person, synced)).status_code == 303
    assert session_in(await sign_in_by(api, synced))
    longest = Authenticator()
    longest.id = urandom(1023)
    longest.framed = {"crossOrigin": False}
    assert (await register(person, longest)).status_code == 303
    assert session_in(await sign_in_by(api, longest))


async def test_passkeys_are_renamed_and_removed(api: Api) -> None:
    device, second = Authenticator(), Authenticator("EdDSA")
    user, person, codes = await owner(api, device)
    more = await register(person, second, "Key <2>")
    assert more.headers["location"].endswith("done=factor-added"), "codes come once"
    page = await person.browser.get(f"{DASHBOARD}/security")
    assert "Key &lt;2&gt;" in page.text
    csrf = csrf_in(page)
    first, other = (await api.live[FactorStore].of_user(user.id)).passkeys
    own = {"csrf": csrf, "kind": "passkey", "id": str(first.id)}
    assert (await person.post("/security/rename", **own, name="Old")).status_code == 303
    assert (await person.post("/security/remove", **own)).status_code == 303
    assert (await sign_in_by(api, device)).status_code == 422
    assert (await api.live[FactorStore].of_user(user.id)).recovery_codes == len(codes)
    assert (await person.post("/security/remove", **own)).status_code == 404, "two tabs"
    assert (await person.post("/security/remove", **own | {"id": str(other.id)})).status_code == 303
    assert (await Way(api, "/auth/login").send(user)).is_success, "the password alone"
    (row,) = await api.live.db.all("SELECT count(*) FROM recovery_codes")
    assert row[0] == 0


async def test_last_passkey_without_a_password_cannot_be_removed(api: Api) -> None:
    user, _, _ = await owner(api, Authenticator())
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE users SET password_hash = NULL WHERE id = :id", {"id": user.id})
    (passkey,) = (await api.live[FactorStore].of_user(user.id)).passkeys
    async with api.unchanged():
        with pytest.raises(Conflict, match="set a password first"):
            await remove_factor(api.live, user.id, "passkey", passkey.id, OPERATOR)


async def test_app_beside_a_passkey_keeps_the_recovery_codes(api: Api) -> None:
    user, person, codes = await owner(api, Authenticator())
    made = await enrolled(api, person, "/security/app")
    assert made.status_code == 303, made.text
    shown = (await person.browser.get(HERE + made.headers["location"])).text
    assert "Your app is set up" in shown
    assert not re.findall(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){5}", shown)
    login = Way(api, "/auth/login")
    for code in codes:
        assert (await login.send(user, code)).is_success


async def test_passkey_satisfies_step_up(api: Api) -> None:
    device, strange = Authenticator(), Authenticator("EdDSA")
    await owner(api, strange)
    user, person, _ = await owner(api, device)
    api.clock.advance(seconds=900)
    page = await person.browser.get(f"{DASHBOARD}/keys/new")
    csrf = csrf_in(page)
    form = {"csrf": csrf, "name": "Till", "type": "live", "expiry": "90d"}
    asked = await person.post("/keys/new", **form)
    token = re.search(r'name="step_up" value="(.*?)"', asked.text)
    assert token
    waiting = {**form, "step_up": token[1]}
    for answer in ("{}", strange.get(options_in(asked))):
        refused = await person.post("/keys/new", **waiting, step_up_passkey=answer)
        assert refused.status_code == 422
        assert token[1] in refused.text
    assert await keys_of(api.live, user.id) == []
    done = await person.post("/keys/new", **waiting, step_up_passkey=device.get(options_in(asked)))
    assert done.status_code == 303, done.text
    assert len(await keys_of(api.live, user.id)) == 1


async def test_passkey_sign_in_clears_failures_and_a_reset_removes_it(api: Api) -> None:
    device = Authenticator()
    user, _, _ = await owner(api, device)
    login = Way(api, "/auth/login")
    for _ in range(10):
        await login.send(user, None, "Wrong-password1")
    assert (await login.send(user)).status_code == 429
    assert session_in(await sign_in_by(api, device))
    assert (await login.send(user)).status_code == 401
    await reset_factors(api.live, user.id, OPERATOR)
    assert (await sign_in_by(api, device)).status_code == 422
    assert (await login.send(user)).is_success
