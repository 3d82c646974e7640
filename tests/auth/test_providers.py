"""Signing in by another provider: who may, as whom, and what proves nothing."""

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from driving import Api, settings_for
from openid_provider import (
    CLIENT,
    KEYS,
    OTHER_KEY,
    SECRET,
    SHORT_KEY,
    OpenIdProvider,
    Traveller,
    client_secret_key,
    for_encryption,
    providing,
)
from owned import sessions_of
from portico.core.audit import OPERATOR
from portico.core.errors import Conflict, Invalid
from portico.core.providers import Person as Told
from portico.core.users import User
from portico.features.events.audit import Audit
from portico.features.people.accounts import suspend
from portico.features.people.invitations import find, invite
from portico.features.people.storage import Users
from portico.features.signin import openid
from portico.features.signin.openid import SKEW, LoginAttempt
from portico.features.signin.providers import link, unlink
from portico.features.signin.storage import ProviderStore
from second_factor import (
    DASHBOARD,
    HERE,
    code_of,
    factored,
    session_in,
)
from signing_in import AUTH, PASSWORD

pytestmark = pytest.mark.one_engine

ADA: dict[str, Any] = {
    "sub": "ada-1",
    "email": "ada@example.com",
    "email_verified": True,
    "name": "Ada",
}


@pytest.fixture
async def provider() -> AsyncIterator[OpenIdProvider]:
    """A provider at which Ada is signed in."""
    async with providing() as provider:
        provider.claims = dict(ADA)
        yield provider


@pytest.fixture
def table() -> str:
    """More settings of the provider."""
    return ""


@pytest.fixture
async def api(
    environ: dict[str, str], tmp_path: Path, provider: OpenIdProvider, table: str
) -> AsyncIterator[Api]:
    """The application, where people may sign in by the provider."""
    (tmp_path / "portico.toml").write_text(
        f'[sign_in.corp]\nissuer = "{provider.issuer}"\nclient_id = "{CLIENT}"\n'
        f'client_secret = "{SECRET}"\nlabel = "Corp"\n{table}\n'
    )
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api


async def linked(api: Api) -> User:
    """Ada's account, linked."""
    user = await api.account(email=ADA["email"], password=PASSWORD)
    await join(api, user)
    return user


async def join(api: Api, user: User) -> None:
    """Links an account to Ada at the provider."""
    told = Told("ada-1", "ada@example.com", email_verified=True, name="")
    await link(api.live, api.live.sign_in_by["corp"], told, user.id, OPERATOR)


async def noted(api: Api) -> list[tuple[str, int | None, Any]]:
    """The audit log: what, who, and details."""
    rows = await api.live.db.all("SELECT action, user_id, details FROM audit ORDER BY id", {})
    return [(row[0], row[1], json.loads(row[2])) for row in rows]


def said(answer: httpx.Response) -> str:
    """Why a page says that nobody was signed in."""
    assert not session_in(answer)
    found = re.search(r'role="alert"[^>]*>(.*?)</p>', answer.text, re.DOTALL)
    assert found, answer.text
    return unescape(found[1])


async def is_asked(somebody: Traveller) -> bool:
    """Whether they are asked who they are before something important."""
    path, csrf = "/security/link", await somebody.csrf()
    return "Confirm that it is you" in (await somebody.post(path, provider="corp", csrf=csrf)).text


async def accounts_own(api: Api) -> User:
    """Ada's account, which has been made for her at the provider."""
    user = await api.live[Users].by_email(ADA["email"])
    assert user is not None
    return user


async def arrives(api: Api, provider: OpenIdProvider, **claims: Any) -> httpx.Response:
    """What somebody with these claims is answered on the way back."""
    provider.claims = ADA | claims
    return await Traveller(api, provider).arrive()


SITES = {"dashboard": DASHBOARD, "auth": AUTH["live"]}


@pytest.mark.parametrize("site", SITES)
async def test_linked_account_signs_in_and_continues(
    api: Api, provider: OpenIdProvider, site: str
) -> None:
    user = await linked(api)
    ada = Traveller(api, provider, SITES[site])
    page = await ada.browser.get(f"{ada.at}/sign-in")
    assert "Sign in with Corp" in page.text
    target = f"{ada.at.removeprefix(HERE)}/keys?x=1"
    back = provider.visit(await ada.leave(next=target))
    done = await ada.browser.get(back)
    assert done.status_code == 303, done.text
    assert done.headers["location"] == target
    assert session_in(done)
    (session,) = await sessions_of(api.live, user.id, api.clock())
    assert session.amr == ()
    assert ("sign_in", user.id, {"provider": "corp"}) in await noted(api)
    again = await ada.browser.get(back)
    assert again.status_code == 403
    assert "already finished" in said(again)


async def test_unknown_subject_is_linked_after_sign_in_and_agreement(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email="Ada@Example.com", password=PASSWORD)
    ada, target = Traveller(api, provider), "/dashboard/keys?x=1"
    async with api.unchanged(but="provider_visits"):
        back = await ada.arrive()
        assert not session_in(back)
    page = await ada.browser.get(HERE + back.headers["location"])
    assert "No account is linked to ada@example.com at Corp yet" in page.text
    signed_in = await ada.post("/sign-in", email=user.email, password=PASSWORD, next=target)
    assert session_in(signed_in)
    question = await ada.browser.get(HERE + signed_in.headers["location"])
    assert "Link the Corp account ada@example.com?" in question.text
    assert not await api.live[ProviderStore].links_of(user.id), "unasked"
    assert (await ada.decide("link", next=target)).headers["location"] == target
    (made,) = await api.live[ProviderStore].links_of(user.id)
    assert made.subject == "ada-1"
    assert ("provider.linked", user.id, {"issuer": provider.issuer}) in await noted(api)
    assert session_in(await Traveller(api, provider).arrive())


async def test_declined_link_is_not_made_and_not_asked_about_again(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.arrive()
    assert "/sign-in/link" in (await ada.sign_in(user)).headers["location"]
    assert (await ada.decide("not-now")).headers["location"] == "/dashboard"
    assert (await ada.sign_in(user)).headers["location"] == "/dashboard"
    assert not await api.live[ProviderStore].links_of(user.id)


async def test_link_is_possible_for_ten_minutes_and_after_a_new_sign_in_only(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    slow, old = Traveller(api, provider), Traveller(api, provider)
    await old.sign_in(user)
    api.clock.advance(seconds=600)
    provider.claims["exp"] = api.clock() // 1000 + 60
    await old.arrive()
    question = await old.browser.get(f"{DASHBOARD}/sign-in/link")
    assert question.headers["location"] == "/dashboard", "signed in before"
    await slow.arrive()
    await slow.sign_in(user)
    csrf = await slow.csrf("/sign-in/link")
    api.clock.advance(seconds=600)
    gone = await slow.post("/sign-in/link", decision="link", csrf=csrf)
    assert gone.status_code == 404
    assert "Nothing was linked" in gone.text
    assert not await api.live[ProviderStore].links_of(user.id)


@pytest.mark.parametrize("table", ['create_users = true\nrole = "viewer"'])
async def test_invited_email_gets_the_invitations_role_and_plan(
    api: Api, provider: OpenIdProvider
) -> None:
    facts: dict[str, Any] = {"role": "editor", "plan": "pro", "handed_over": True, "by": OPERATOR}
    api.clock.advance(days=-7)
    await invite(api.live, email="old@example.com", **facts)
    api.clock.advance(days=7)
    made = await invite(api.live, email="ada@example.com", **facts)
    for email, role, plan in (
        ("Ada@Example.com", "editor", "pro"),
        ("old@example.com", "viewer", "free"),
    ):
        assert session_in(await arrives(api, provider, sub=email, email=email))
        user = await api.live[Users].by_email(email)
        assert user is not None
        assert (user.role, user.plan) == (role, plan)
    told = {"email": "ada@example.com", "role": "editor", "plan": "pro"}
    assert [one for one in await noted(api) if one[0] == "invitation.accepted"] == [
        ("invitation.accepted", (await accounts_own(api)).id, told)
    ]
    with pytest.raises(Invalid):
        await find(api.live, made.link.partition("?token=")[2])


@pytest.mark.parametrize(
    "table",
    ['create_users = true\ndomains = ["example.com", "strasse.example", "XN--mnchen-3ya.example"]'],
)
async def test_email_outside_the_domains_is_refused(api: Api, provider: OpenIdProvider) -> None:
    outside: list[dict[str, Any]] = [{"email_verified": False}, {"email": None}]
    names = ("example.org", "mail.example.com", "straße.example", "munchen.example")
    outside += [{"email": f"ada@{name}"} for name in names]
    for claims in outside:
        async with api.unchanged(but="provider_visits audit"):
            answer = await arrives(api, provider, **claims)
            assert answer.status_code == 403
            assert "may not sign in here with Corp" in said(answer)
        (entry,) = await api.live[Audit].page(limit=1)
        assert (entry.action, entry.credential) == ("sign_in.refused", "provider")
        assert entry.target_id is None
    for email in ("Ada@EXAMPLE.com", "Ada@MÜNCHEN.example", "ada@strasse.example"):
        assert session_in(await arrives(api, provider, sub=email, email=email)), email
    user = await accounts_own(api)
    left = await arrives(api, provider, sub="Ada@EXAMPLE.com", email="ada@example.org")
    assert "may not sign in" in said(left), "linked before"
    (entry,) = await api.live[Audit].page(limit=1)
    assert (entry.action, entry.target_id) == ("sign_in.refused", str(user.id))


async def test_provider_sign_in_still_needs_the_second_factor(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await factored(api, email=ADA["email"])
    await join(api, user)
    ada, late = Traveller(api, provider), Traveller(api, provider)
    for one in (ada, late):
        first = await one.arrive()
        assert "/sign-in/code?next=" in first.headers["location"]
        assert not session_in(first)
    assert (await ada.post("/sign-in/code", otp="000000")).status_code == 422
    assert session_in(await ada.post("/sign-in/code", otp=code_of(api)))
    (session,) = await sessions_of(api.live, user.id, api.clock())
    assert session.amr == ("otp", "mfa")
    signed_in, refused = await api.live[Audit].page(limit=2)
    assert json.loads(signed_in.details) == {"provider": "corp", "second_factor": "authenticator"}
    assert (refused.action, refused.credential) == ("second_factor.refused", "provider")
    (made,) = await api.live[ProviderStore].links_of(user.id)
    await unlink(api.live, user.id, made.id, OPERATOR)
    async with api.unchanged():
        answer = await late.post("/sign-in/code", otp=code_of(api, 1))
    assert "sign-in-again" in answer.headers["location"], "unlinked meanwhile"


async def test_suspended_account_is_refused_after_the_provider(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await linked(api)
    await suspend(api.live, user.id, OPERATOR)
    answer = await Traveller(api, provider).arrive()
    assert "suspended" in said(answer)
    assert ("sign_in.refused", None, {"suspended": True}) in await noted(api)


OTHER = """
[sign_in.other]
issuer = "https://other.example.com"
client_id = "other"
client_secret = "secret"
"""


@pytest.mark.parametrize("table", [OTHER])
async def test_callback_of_another_visit_or_too_late_is_refused(
    api: Api, provider: OpenIdProvider
) -> None:
    await linked(api)
    ada, eve = Traveller(api, provider), Traveller(api, provider)
    back, others = provider.visit(await ada.leave()), provider.visit(await eve.leave())
    async with api.unchanged():
        for browser, address in (
            (Traveller(api, provider).browser, back),
            (eve.browser, back),
            (ada.browser, others),
            (ada.browser, back.replace("state=", "state=x")),
            (ada.browser, f"{DASHBOARD}/sign-in/back/corp"),
        ):
            assert "not started in this browser" in said(await browser.get(address))
    assert session_in(await ada.browser.get(back)), "what others tried has changed nothing"
    elsewhere = provider.visit(await ada.leave()).replace("/back/corp?", "/back/other?")
    assert "not started in this browser" in said(await ada.browser.get(elsewhere))
    late = provider.visit(await ada.leave())
    api.clock.advance(seconds=600)
    assert "longer than ten minutes" in said(await ada.browser.get(late))


async def test_cross_site_callback_reloads_to_send_strict_cookies(
    api: Api, provider: OpenIdProvider
) -> None:
    await linked(api)
    ada = Traveller(api, provider)
    back = provider.visit(await ada.leave())
    from_there = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    first = await ada.browser.get(back, headers=from_there)
    assert 'http-equiv="refresh"' in first.text
    assert session_in(await ada.browser.get(back, headers={"sec-fetch-site": "same-origin"}))


ENCRYPTED = b64encode(b'{"alg":"RSA-OAEP","enc":"A128GCM"}').decode().rstrip("=")
LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "another"}},
    "no nonce": {"claims": {"nonce": None}},
    "another issuer": {"claims": {"iss": "https://evil.example.com"}},
    "another audience": {"claims": {"aud": "somebody else"}},
    "audiences without azp": {"claims": {"aud": [CLIENT, "other"]}},
    "another azp of two": {"claims": {"aud": [CLIENT, "other"], "azp": "other"}},
    "expired": {"claims": {"exp": 1_773_576_000 - 61}},
    "not valid yet": {"claims": {"nbf": 1_773_576_000 + 61}},
    "no end": {"claims": {"exp": None}},
    "an end that is none": {"claims": {"exp": "tomorrow"}},
    "a subject that is a number": {"claims": {"sub": 1}},
    "an empty subject": {"claims": {"sub": ""}},
    "a subject too long": {"claims": {"sub": "a" * 256}},
    "a subject with NUL": {"claims": {"sub": "ada-1\0"}},
    "not signed": {"header": {"alg": "none"}, "key": None},
    "signed by the client's secret": {"header": {"alg": "HS256"}, "key": client_secret_key()},
    "another key": {"key": OTHER_KEY},
    "a short key": {"key": SHORT_KEY, "keys": [SHORT_KEY]},
    "an unknown key": {"header": {"alg": "RS256", "kid": "unknown"}},
    "a header that is a list": {"bodies": {"/token": b'{"id_token": "WyJhbGciXQ.e30.AA"}'}},
    "a key for encryption": {"keys": [for_encryption()]},
    "a token that is none": {"bodies": {"/token": b'{"id_token": "a.b.c"}'}},
    "encrypted": {
        "bodies": {"/token": json.dumps({"id_token": f"{ENCRYPTED}.a.b.c.d"}).encode()},
        "logs": "its ID token is encrypted",
    },
    "an error with status 200": {
        "bodies": {"/token": b'{"error": "invalid_client", "error_description": "expired"}'},
        "logs": "it answered with something else and 'invalid_client': Object missing",
    },
    "deep JSON": {"bodies": {"/token": b"[" * 100_000}},
    "keys that are none": {"bodies": {"/keys": b'{"keys": [{"kty": "RSA"}, {}]}'}},
    "userinfo of somebody else": {
        "claims": {"email": None},
        "userinfo": {"sub": "eve", "email": "ada@example.com"},
    },
}


@pytest.mark.parametrize("table", ["create_users = true"])
async def test_invalid_id_token_signs_nobody_in(
    api: Api, provider: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    await linked(api)
    honest = vars(provider).copy()
    for lie, each in LIES.items():
        values = dict(each)
        logs = values.pop("logs", "")
        vars(provider).update(honest | values)
        caplog.clear()
        async with api.unchanged(but="provider_visits"):
            answer = await arrives(api, provider, **values.get("claims", {}))
            assert answer.status_code == 403, lie
            assert "was not valid" in said(answer), lie
        assert f"corp signed nobody in: {logs}" in caplog.text, lie
        assert SECRET not in caplog.text
    vars(provider).update(honest)
    for iss in ("", "https://evil.example.com"):
        assert "was not valid" in said(await Traveller(api, provider).arrive(iss=iss))
    assert session_in(await Traveller(api, provider).arrive())


async def test_providers_error_is_shown_and_logged_unless_access_was_denied(
    api: Api, provider: OpenIdProvider, caplog: pytest.LogCaptureFixture
) -> None:
    for error, shown, logged in (
        ("invalid_scope", "reported invalid_scope", ["it reported 'invalid_scope'"]),
        ("<script>", "reported an error", ["it reported '<script>'"]),
        ("access_denied", "was not allowed to sign you in", []),  # the person's own choice
    ):
        caplog.clear()
        async with api.unchanged(but="provider_visits"):
            answer = await Traveller(api, provider).arrive(code="", error=error)
        assert answer.status_code == 403
        assert shown in said(answer)
        reasons = [f"corp signed nobody in: {reason}" for reason in logged]
        assert [text for text in caplog.messages if text.startswith("corp ")] == reasons


async def test_unusual_but_valid_id_token_is_accepted(api: Api, provider: OpenIdProvider) -> None:
    await linked(api)
    provider.header = {"alg": "RS256", "x-ours": "unknown"}
    provider.claims |= {"aud": [CLIENT, "other"], "azp": CLIENT, "exp": 1_773_576_000 - 59}
    provider.claims["nbf"] = 1_773_576_000 + 59
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert session_in(await Traveller(api, provider).arrive())


async def test_id_token_by_every_supported_algorithm_is_accepted(
    api: Api, provider: OpenIdProvider
) -> None:
    await linked(api)
    for algorithm in openid.ALGORITHMS:
        provider.key, provider.header = KEYS[algorithm], {"alg": algorithm}
        provider.keys = [KEYS[algorithm]]
        assert session_in(await Traveller(api, provider).arrive()), algorithm


async def test_rotated_provider_keys_are_fetched_and_withdrawn_ones_refused(
    api: Api, provider: OpenIdProvider
) -> None:
    await linked(api)
    assert session_in(await Traveller(api, provider).arrive())
    ada = Traveller(api, provider)
    back = provider.visit(await ada.leave())
    old, provider.key, provider.keys = provider.key, OTHER_KEY, [OTHER_KEY]
    provider.header = {"alg": "RS256", "kid": "other"}
    assert session_in(await ada.browser.get(back))
    provider.key, provider.header = old, {"alg": "RS256", "kid": "first"}
    assert "was not valid" in said(await Traveller(api, provider).arrive()), "withdrawn"


@pytest.mark.parametrize("table", ["create_users = true"])
async def test_email_is_read_from_the_userinfo_endpoint(api: Api, provider: OpenIdProvider) -> None:
    provider.userinfo = dict(ADA)
    answer = await arrives(api, provider, email=None, email_verified=None)
    assert session_in(answer)
    assert await accounts_own(api)


DEAF: dict[str, dict[str, Any]] = {
    "another issuer": {"metadata": {"issuer": "https://evil.example.com"}},
    "an endpoint without TLS": {"metadata": {"token_endpoint": "http://example.com/token"}},
    "a userinfo endpoint without TLS": {"metadata": {"userinfo_endpoint": "http://example.com/me"}},
    "a script": {"metadata": {"authorization_endpoint": "javascript:alert(1)"}},
    "another shape": {"metadata": {"jwks_uri": 5}},
    "a huge answer": {"bodies": {"/.well-known/openid-configuration": b" " * 262_145}},
    "nothing in time": {"hangs": {"/.well-known/openid-configuration"}},
}


async def test_broken_provider_is_503_until_it_recovers(
    api: Api, provider: OpenIdProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(api)
    ada = Traveller(api, provider)
    honest = vars(provider).copy()
    for how, values in DEAF.items():
        vars(provider).update(honest | values)
        with monkeypatch.context() as patch:
            if provider.hangs:
                patch.setattr(api.portico.fetcher, "_seconds", 0.2)
            async with api.unchanged():
                answer = await ada.post("/sign-in/with/corp")
        assert answer.status_code == 503, how
        assert int(answer.headers["retry-after"]) > 0
        assert "Corp does not respond as it should" in said(answer)
    vars(provider).update(honest)
    assert session_in(await ada.arrive())


@pytest.mark.parametrize("path", ["/token", "/keys", "/userinfo"])
async def test_busy_provider_is_503_and_a_refusing_one_403(
    api: Api, provider: OpenIdProvider, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    await linked(api)
    del provider.claims["email"]
    for status, text, answered in (
        (429, "does not respond as it should", 503),
        (500, "does not respond as it should", 503),
        (302, "was not valid", 403),
        (404, "was not valid", 403),
    ):
        ada = Traveller(api, provider)
        back = provider.visit(await ada.leave())
        provider.statuses[path] = status
        async with api.unchanged(but="provider_visits"):
            answer = await ada.browser.get(back)
            assert answer.status_code == answered
            assert text in said(answer)
        assert f"it answered with the status {status}" in caplog.text
        provider.statuses.clear()
        api.clock.advance(seconds=60)


async def test_account_links_and_unlinks_a_provider(api: Api, provider: OpenIdProvider) -> None:
    user = await api.account(email="other@example.com", password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.sign_in(user)
    csrf = await ada.csrf()
    address = await ada.leave("/security/link", provider="corp", csrf=csrf)
    done = await ada.browser.get(provider.visit(address))
    assert done.headers["location"].endswith("/security?done=provider-linked"), done.text
    assert "ada@example.com" in (await ada.browser.get(f"{DASHBOARD}/security")).text
    assert session_in(await Traveller(api, provider).arrive())
    (made,) = await api.live[ProviderStore].links_of(user.id)
    asks = await ada.browser.get(f"{DASHBOARD}/security/unlink?id={made.id}")
    assert "Unlink Corp?" in asks.text
    gone = await ada.post("/security/unlink", id=str(made.id), csrf=csrf)
    assert gone.headers["location"].endswith("/security?done=provider-unlinked")
    assert not session_in(await Traveller(api, provider).arrive())
    actions = [action for action, *_ in await noted(api)]
    assert actions.count("provider.linked") == actions.count("provider.unlinked") == 1
    assert (await ada.post("/security/unlink", id=str(made.id), csrf=csrf)).status_code == 404
    assert (await ada.post("/security/link", provider="none", csrf=csrf)).status_code == 404
    assert (await ada.post("/security/link", provider="corp")).status_code == 403


async def test_identity_linked_to_another_account_is_409(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    early, late, eve = (Traveller(api, provider) for _ in range(3))
    for one in (early, late):
        await one.arrive()
    await early.sign_in(user)
    await join(api, await api.account())
    await eve.sign_in(await api.account(password=PASSWORD))
    address = await eve.leave("/security/link", provider="corp", csrf=await eve.csrf())
    async with api.unchanged(but="provider_visits"):
        answer = await eve.browser.get(provider.visit(address))
        assert answer.status_code == 409
        assert "linked to another account" in said(answer)
        agreed = await early.decide("link")
        assert agreed.status_code == 409
        assert "is linked to another account here" in agreed.text
    assert session_in(await late.sign_in(user)), "that alone does not keep anybody out"
    assert not await api.live[ProviderStore].links_of(user.id)


async def test_link_begun_by_another_account_is_refused(api: Api, provider: OpenIdProvider) -> None:
    ada = Traveller(api, provider)
    await ada.sign_in(await api.account(password=PASSWORD))
    address = await ada.leave("/security/link", provider="corp", csrf=await ada.csrf())
    await ada.sign_in(await api.account(password=PASSWORD))
    async with api.unchanged(but="provider_visits"):
        answer = await ada.browser.get(provider.visit(address))
        assert "no longer signed in to the same account" in said(answer)


async def test_last_provider_without_a_password_cannot_be_unlinked(api: Api) -> None:
    user = await api.account()
    await join(api, user)
    (made,) = await api.live[ProviderStore].links_of(user.id)
    async with api.unchanged():
        with pytest.raises(Conflict, match="set a password first"):
            await unlink(api.live, user.id, made.id, OPERATOR)


async def test_step_up_without_a_password_signs_in_at_the_provider(
    api: Api, provider: OpenIdProvider
) -> None:
    await join(api, await api.account())
    ada = Traveller(api, provider)
    await ada.arrive()
    asked = await ada.post("/security/link", provider="corp", csrf=await ada.csrf())
    assert "/dashboard/sign-in?again=yes" in asked.text
    assert 'name="current_password"' not in asked.text
    page = await ada.browser.get(f"{DASHBOARD}/sign-in?again=yes")
    assert 'name="again" value="yes"' in page.text
    address = await ada.leave(again="yes")
    assert "prompt=login&max_age=600" in address
    # Microsoft's ID tokens end `max_age` after the password.
    seen = api.clock() // 1000 + 5
    provider.claims |= {"auth_time": seen, "exp": seen + 600}
    api.clock.advance(seconds=500)
    assert session_in(await ada.browser.get(provider.visit(address)))
    assert not await is_asked(ada)


@pytest.mark.parametrize("listed", [["sub", "auth_time"], ["sub"], "auth_time"])
async def test_fresh_provider_sign_in_needs_a_recent_auth_time(
    api: Api, provider: OpenIdProvider, listed: Any
) -> None:
    await join(api, await api.account())
    provider.metadata["claims_supported"] = listed
    ada = Traveller(api, provider)
    begun = api.clock() // 1000
    for auth_time, good in (
        (begun - SKEW - 1, False),
        ("yesterday", False),
        (True, False),
        (None, listed != ["sub", "auth_time"]),
        (begun - SKEW, True),
        (begun + 90.5, True),
    ):
        provider.claims["auth_time"] = auth_time
        address = await ada.leave(again="yes")
        api.clock.advance(seconds=100)
        answer = await ada.browser.get(provider.visit(address))
        api.clock.advance(seconds=-100)
        assert session_in(answer) == good, auth_time
        assert good or "was not valid" in said(answer)
    provider.claims["auth_time"] = begun - 86_400
    assert session_in(await ada.arrive()), "an ordinary sign-in"


@pytest.mark.parametrize("again", ["", "yes"])
async def test_provider_sign_in_does_not_satisfy_step_up_of_an_account_with_password(
    api: Api, provider: OpenIdProvider, again: str
) -> None:
    user = await linked(api)
    ada = Traveller(api, provider)
    await ada.sign_in(user)
    assert not await is_asked(ada)
    await ada.browser.get(provider.visit(await ada.leave(again=again)))
    csrf = await ada.csrf()
    page = await ada.post("/keys/new", csrf=csrf, name="Till", type="live", expiry="90d")
    assert "Confirm that it is you" in page.text
    token = re.search(r'name="step_up" value="([^"]+)"', page.text)
    assert token, page.text
    form = {"name": "Till", "type": "live", "expiry": "90d", "step_up": token[1]}
    done = await ada.post("/keys/new", csrf=csrf, current_password=PASSWORD, **form)
    assert done.status_code == 303, done.text
    assert not await is_asked(ada), "fresh from now on"


@pytest.mark.parametrize("password", [None, PASSWORD])
async def test_code_after_a_provider_satisfies_step_up_without_a_password_alone(
    api: Api, provider: OpenIdProvider, password: str | None
) -> None:
    user = await factored(api, email=ADA["email"], password=password)
    await join(api, user)
    ada = Traveller(api, provider)
    await ada.arrive()
    assert session_in(await ada.post("/sign-in/code", otp=code_of(api)))
    assert await is_asked(ada) == (password is not None)


async def test_browser_cannot_turn_a_visit_into_a_fresh_one(
    api: Api, provider: OpenIdProvider
) -> None:
    await join(api, await api.account())
    ada = Traveller(api, provider)
    address = await ada.leave()
    secret = ada.browser.cookies["__Host-provider"]
    forged = f"again_{secret}"
    there = address.replace(LoginAttempt.of(secret).state, LoginAttempt.of(forged).state)
    for kept, way, good in ((forged, there, False), (secret, address, True)):
        ada.browser.cookies.clear()
        ada.browser.headers["cookie"] = f"__Host-provider={kept}"
        answer = await ada.browser.get(provider.visit(way))
        assert bool(session_in(answer)) == good
        assert good or "not started in this browser" in said(answer)


async def test_sandbox_knows_no_providers(api: Api) -> None:
    page = await api.stranger().get(f"{AUTH['sandbox']}/sign-in")
    assert page.status_code == 200
    assert "Corp" not in page.text


async def test_account_of_another_email_is_not_asked_whether_to_link(
    api: Api, provider: OpenIdProvider
) -> None:
    other, ada = await api.account(password=PASSWORD), Traveller(api, provider)
    assert not session_in(await ada.arrive())
    assert (await ada.sign_in(other)).headers["location"] == "/dashboard"
    sent = await ada.post("/sign-in/link", decision="link", csrf=await ada.csrf())
    assert sent.status_code == 404
    assert not await api.live[ProviderStore].links_of(other.id)


@pytest.mark.parametrize("table", ["create_users = true"])
async def test_unverified_email_is_neither_linked_nor_given_an_account(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    cases: list[dict[str, Any]] = [{"email": None}]
    cases += [{"email_verified": one} for one in (False, None, 1, "1", "false", ["true"])]
    for claims in cases:
        provider.claims = ADA | claims
        ada = Traveller(api, provider)
        async with api.unchanged(but="provider_visits"):
            assert "did not give a verified e-mail" in said(await ada.arrive())
        assert (await ada.sign_in(user)).headers["location"] == "/dashboard"
        provider.claims = ADA | {"email": "new@example.com"} | claims
        async with api.unchanged(but="provider_visits"):
            assert not session_in(await Traveller(api, provider).arrive())


@pytest.mark.parametrize("table", ['create_users = true\nrole = "editor"'])
async def test_account_is_created_for_a_verified_email(api: Api, provider: OpenIdProvider) -> None:
    assert session_in(await arrives(api, provider))
    user = await accounts_own(api)
    assert (user.name, user.role, user.plan, user.password_hash) == ("Ada", "editor", "free", None)
    assert user.email_verified_at == api.clock()
    entries = await api.live[Audit].page(limit=3)
    assert [one.action for one in entries] == ["sign_in", "provider.linked", "user.created"]
    assert {(one.user_id, one.credential) for one in entries[1:]} == {(user.id, "provider")}
    assert session_in(await arrives(api, provider)), "and comes back"
    jumpcloud = {"sub": "eve", "email": "eve@example.com", "email_verified": "true"}
    assert session_in(await arrives(api, provider, **jumpcloud))
    await api.account(email="bob@example.com", password=PASSWORD)
    async with api.unchanged(but="provider_visits"):
        taken = await arrives(api, provider, sub="bob", email="BOB@example.com")
        assert not session_in(taken), "an account has it"
