"""Signing in by another provider: who may, as whom, and what proves nothing."""

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
import pytest
from joserfc import jwk

from driving import Api, settings_for
from mail.conftest import Post
from openid_provider import (
    CLIENT,
    FIRST_KEY,
    KEYS,
    OTHER_KEY,
    SECRET,
    OpenIdProvider,
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
from portico.features.people.invitations import ask_sign_up, find, invite
from portico.features.people.storage import Users
from portico.features.signin import openid
from portico.features.signin.openid import SKEW, Trip
from portico.features.signin.providers import link, unlink
from portico.features.signin.rules import Passkey, step_of
from portico.features.signin.second_factor import Enrolment, enrol
from portico.features.signin.storage import FactorStore, ProviderStore
from second_factor import (
    CODES,
    HERE,
    KEY,
    ORIGIN,
    code_of,
    factored,
    session_in,
)
from signing_in import AUTH, PASSWORD

DASHBOARD = f"{HERE}/dashboard"
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


class Traveller:
    """Somebody with a browser, at one site, and the provider that they go to."""

    def __init__(self, api: Api, provider: OpenIdProvider, at: str = DASHBOARD) -> None:
        self.browser = api.stranger()
        self.provider = provider
        self.at = at

    async def post(self, path: str, **form: str) -> httpx.Response:
        """A form of that site."""
        fields = {"next": "", **form}
        return await self.browser.post(self.at + path, data=fields, headers=ORIGIN)

    async def leave(self, path: str = "/sign-in/with/corp", **form: str) -> str:
        """Goes to the provider: the address there."""
        page = await self.post(path, **form)
        assert page.status_code == 200, page.text
        found = re.search(r'<a class="button primary wide" href="(.*?)"', page.text)
        assert found
        address = unescape(found[1])
        assert f'content="0; url={found[1]}"' in page.text
        return address

    async def arrive(self, **more: str) -> httpx.Response:
        """Goes there and comes back."""
        return await self.browser.get(self.provider.visit(await self.leave(), **more))

    async def sign_in(self, user: User) -> httpx.Response:
        """As before: by the password."""
        return await self.post("/sign-in", email=user.email, password=PASSWORD)

    async def csrf(self, path: str = "/security") -> str:
        """What forms carry."""
        page = await self.browser.get(self.at + path)
        found = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert found, page.text
        return found[1]

    async def decide(self, decision: str, **form: str) -> httpx.Response:
        """Answers whether to link the account that has just signed in."""
        csrf = await self.csrf("/sign-in/link")
        return await self.post("/sign-in/link", decision=decision, csrf=csrf, **form)


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


ON_ONE = pytest.mark.parametrize("environ", [{}], ids=["sqlite"])
"""For what is decided apart from any row."""

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


@pytest.mark.parametrize("site", SITES)
async def test_unknown_subject_is_linked_after_sign_in_and_agreement(
    api: Api, provider: OpenIdProvider, site: str
) -> None:
    user = await api.account(email="Ada@Example.com", password=PASSWORD)
    other = await api.account(password=PASSWORD)
    ada = Traveller(api, provider, SITES[site])
    target = f"{ada.at.removeprefix(HERE)}/keys?x=1"
    async with api.unchanged(but="provider_visits"):
        back = await ada.arrive()
        assert back.status_code == 303
        assert not session_in(back)
    page = await ada.browser.get(HERE + back.headers["location"])
    assert "No account is linked to ada@example.com at Corp yet" in page.text
    signed_in = await ada.post("/sign-in", email=user.email, password=PASSWORD, next=target)
    assert session_in(signed_in)
    question = await ada.browser.get(HERE + signed_in.headers["location"])
    assert "Link the Corp account ada@example.com?" in question.text
    assert f'name="next" value="{target}"' in question.text
    assert not await api.live[ProviderStore].links_of(user.id), "unasked"
    assert (await ada.decide("link", next=target)).headers["location"] == target
    (made,) = await api.live[ProviderStore].links_of(user.id)
    assert made.subject == "ada-1"
    assert ("provider.linked", user.id, {"issuer": provider.issuer}) in await noted(api)
    assert session_in(await Traveller(api, provider).arrive())
    provider.claims["sub"] = "ada-2"
    another = Traveller(api, provider)
    assert not session_in(await another.arrive())
    assert (await another.sign_in(other)).headers["location"] == "/dashboard", "another e-mail"
    sent = await another.post("/sign-in/link", decision="link", csrf=await another.csrf())
    assert sent.status_code == 404
    assert not await api.live[ProviderStore].links_of(other.id)


async def test_declined_link_is_not_made_and_not_asked_about_again(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.arrive()
    assert "/sign-in/link" in (await ada.sign_in(user)).headers["location"]
    assert (await ada.decide("not-now")).headers["location"] == "/dashboard"
    assert (await ada.sign_in(user)).headers["location"] == "/dashboard"
    csrf = await ada.csrf()
    assert (await ada.post("/sign-in/link", decision="link", csrf=csrf)).status_code == 404
    assert not await api.live[ProviderStore].links_of(user.id)


async def test_second_factor_comes_before_the_question_whether_to_link(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await factored(api, email=ADA["email"])
    api.live.settings = replace(api.live.settings, require_second_factor="all")
    enrolling = await api.account(email="eve@example.com", password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.arrive()
    assert "/sign-in/code" in (await ada.sign_in(user)).headers["location"]
    done = await ada.post("/sign-in/code", otp=code_of(api))
    assert "/sign-in/link" in done.headers["location"]
    provider.claims = ADA | {"sub": "eve", "email": enrolling.email}
    eve = Traveller(api, provider)
    await eve.arrive()
    page = await eve.browser.get(HERE + (await eve.sign_in(enrolling)).headers["location"])
    secret = re.search(r'name="secret" value="(.*?)"', page.text)
    key = re.search(r"secret=(\w+)", page.text)
    assert secret
    assert key, page.text
    code = code_of(api, key=key[1])
    done = await eve.post("/sign-in/code", secret=secret[1], otp=code, name="Phone")
    codes = await eve.browser.get(HERE + done.headers["location"])
    assert 'href="/dashboard/sign-in/link?next=' in codes.text


@ON_ONE
async def test_link_is_possible_for_ten_minutes_and_after_a_new_sign_in_only(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    late, slow, old = (Traveller(api, provider) for _ in range(3))
    await old.sign_in(user)
    await late.arrive()
    api.clock.advance(seconds=300)
    await slow.arrive()
    assert "/sign-in/link" in (await slow.sign_in(user)).headers["location"]
    csrf = await slow.csrf("/sign-in/link")
    api.clock.advance(seconds=300)
    assert (await late.sign_in(user)).headers["location"] == "/dashboard"
    await old.arrive()
    question = await old.browser.get(f"{DASHBOARD}/sign-in/link")
    assert question.headers["location"] == "/dashboard", "signed in before"
    api.clock.advance(seconds=300)
    gone = await slow.post("/sign-in/link", decision="link", csrf=csrf)
    assert gone.status_code == 404
    assert "Nothing was linked" in gone.text
    assert not await api.live[ProviderStore].links_of(user.id)


@ON_ONE
async def test_link_that_another_account_got_meanwhile_is_refused_on_the_questions_page(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.arrive()
    await ada.sign_in(user)
    await join(api, await api.account())
    refused = await ada.decide("link")
    assert refused.status_code == 409
    assert "is linked to another account here" in refused.text
    assert "Not now" in refused.text
    assert not await api.live[ProviderStore].links_of(user.id)


async def test_matching_email_alone_creates_and_links_no_account(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    for claims in ({}, {"sub": "eve", "email": "eve@example.com"}):
        provider.claims = ADA | claims
        async with api.unchanged(but="provider_visits"):
            answer = await Traveller(api, provider).arrive()
            assert answer.status_code == 303
            assert "/sign-in?next=" in answer.headers["location"]
            assert not session_in(answer)
    for told, lacking in (
        ({"email": None}, "did not give an e-mail"),
        ({"email_verified": False}, "did not say that its e-mail is verified"),
        ({"email_verified": None}, "did not say that its e-mail is verified"),
        ({"email_verified": 1}, "did not say that its e-mail is verified"),
        ({"email_verified": "1"}, "did not say that its e-mail is verified"),
        ({"email_verified": "false"}, "did not say that its e-mail is verified"),
        ({"email_verified": ["true"]}, "did not say that its e-mail is verified"),
    ):
        provider.claims = ADA | told
        ada = Traveller(api, provider)
        assert lacking in said(await ada.arrive())
        assert (await ada.sign_in(user)).headers["location"] == "/dashboard"
        question = await ada.browser.get(f"{DASHBOARD}/sign-in/link")
        assert question.headers["location"] == "/dashboard"


@pytest.mark.parametrize("table", ['create_users = true\nrole = "editor"'])
async def test_account_is_created_for_a_verified_email_alone(
    api: Api, provider: OpenIdProvider
) -> None:
    assert session_in(await Traveller(api, provider).arrive())
    user = await api.live[Users].by_email(ADA["email"])
    assert user is not None
    assert (user.name, user.role, user.plan, user.password_hash) == ("Ada", "editor", "free", None)
    assert user.email_verified_at == api.clock()
    assert session_in(await Traveller(api, provider).arrive()), "and comes back"
    told: list[dict[str, Any]] = [
        {"email": "a@example.com", "email_verified": False},
        {"email": "a@example.com", "email_verified": "false"},
        {"email": "a@example.com", "email_verified": None},
        {"email": "no e-mail"},
    ]
    for number, claims in enumerate(told):
        provider.claims = ADA | claims | {"sub": f"other-{number}"}
        async with api.unchanged(but="provider_visits"):
            assert not session_in(await Traveller(api, provider).arrive())
    await api.account(email="bob@example.com", password=PASSWORD)
    provider.claims = {"sub": "bob", "email": "BOB@example.com", "email_verified": True}
    async with api.unchanged(but="provider_visits"):
        assert not session_in(await Traveller(api, provider).arrive()), "an account has it"
    provider.claims = {"sub": "eve", "email": "eve@example.com", "email_verified": "true"}
    assert session_in(await Traveller(api, provider).arrive()), "as JumpCloud and Cognito say it"


@pytest.mark.parametrize("table", ["create_users = true"])
async def test_invited_email_gets_the_invitations_role_and_plan(
    api: Api, provider: OpenIdProvider
) -> None:
    facts: dict[str, Any] = {"plan": "pro", "handed_over": True, "by": OPERATOR}
    made = await invite(api.live, email="ada@example.com", role="editor", **facts)
    provider.claims = dict(ADA, email="Ada@Example.com")
    assert session_in(await Traveller(api, provider).arrive())
    user = await api.live[Users].by_email(ADA["email"])
    assert user is not None
    assert (user.name, user.role, user.plan) == ("Ada", "editor", "pro")
    told = {"email": "ada@example.com", "role": "editor", "plan": "pro"}
    assert ("invitation.accepted", user.id, told) in await noted(api)
    with pytest.raises(Invalid):
        await find(api.live, made.link.partition("?token=")[2])


@pytest.mark.parametrize("table", ["create_users = true"])
async def test_created_account_is_audited_as_its_own_actor(
    api: Api, provider: OpenIdProvider
) -> None:
    ada = Traveller(api, provider)
    assert session_in(await ada.sign_in(await api.account("admin", password=PASSWORD)))
    assert session_in(await ada.arrive())
    user = await api.live[Users].by_email(ADA["email"])
    assert user is not None
    entries = await api.live[Audit].page(limit=4)
    whose = {(one.user_id, one.email, one.credential, one.credential_id) for one in entries[1:]}
    assert [entry.action for entry in reversed(entries)] == [
        *("user.created", "provider.linked", "session.revoked", "sign_in"),
    ]
    assert whose == {(user.id, user.email, "provider", None)}


async def test_wrong_code_after_a_provider_is_audited_with_it(
    api: Api, provider: OpenIdProvider
) -> None:
    await join(api, await factored(api, email=ADA["email"]))
    ada = Traveller(api, provider)
    await ada.arrive()
    await ada.post("/sign-in/code", otp="000000")
    refused, asked = await api.live[Audit].page(limit=2)
    assert (refused.action, asked.action) == ("second_factor.refused", "second_factor.asked")
    assert (refused.credential, asked.credential) == ("provider", "provider")


@pytest.mark.parametrize("table", ['create_users = true\nrole = "editor"'])
async def test_invitation_expired_or_of_another_email_is_ignored(
    api: Api, provider: OpenIdProvider
) -> None:
    facts: dict[str, Any] = {"role": "admin", "plan": "pro", "handed_over": True, "by": OPERATOR}
    api.live.sign_up_role = "viewer"
    api.clock.advance(days=-7)
    await invite(api.live, email="old@example.com", **facts)
    api.clock.advance(days=7)
    await invite(api.live, email="ada@straße.example", **facts)
    await ask_sign_up(api.live, "new@example.com", OPERATOR)
    assert len(await Post(api).new()) == 1
    for email in ("old@example.com", "ada@strasse.example", "new@example.com"):
        provider.claims = dict(ADA, sub=email, email=email)
        assert session_in(await Traveller(api, provider).arrive())
        user = await api.live[Users].by_email(email)
        assert user is not None
        assert (user.email, user.role, user.plan) == (email, "editor", "free")
    assert "invitation.accepted" not in {action for action, *_ in await noted(api)}


@pytest.mark.parametrize("table", ['create_users = true\ndomains = ["example.com"]'])
async def test_email_outside_the_domains_is_refused(api: Api, provider: OpenIdProvider) -> None:
    for claims in (
        {"email": "ada@example.org"},
        {"email": "ada@mail.example.com"},
        {"email_verified": False},
        {"email": None},
    ):
        provider.claims = ADA | claims
        async with api.unchanged(but="provider_visits audit"):
            answer = await Traveller(api, provider).arrive()
            assert answer.status_code == 403
            assert "may not sign in here with Corp" in said(answer)
        (entry,) = await api.live[Audit].page(limit=1)
        assert (entry.action, entry.credential) == ("sign_in.refused", "provider")
        assert entry.target_id is None
    provider.claims = dict(ADA, email="Ada@EXAMPLE.com")
    assert session_in(await Traveller(api, provider).arrive())
    user = await api.live[Users].by_email("ada@example.com")
    provider.claims = dict(ADA, email="ada@example.org")
    assert "may not sign in" in said(await Traveller(api, provider).arrive()), "linked before"
    (entry,) = await api.live[Audit].page(limit=1)
    assert user is not None
    assert (entry.action, entry.target_id) == ("sign_in.refused", str(user.id))


@pytest.mark.parametrize(
    "table", ['create_users = true\ndomains = ["strasse.example", "XN--mnchen-3ya.example"]']
)
async def test_international_domain_matches_its_ascii_form_alone(
    api: Api, provider: OpenIdProvider
) -> None:
    for other in ("ada@straße.example", "ada@xn--strae-oqa.example", "ada@munchen.example"):
        provider.claims = dict(ADA, email=other)
        async with api.unchanged(but="provider_visits audit"):
            assert "may not sign in" in said(await Traveller(api, provider).arrive())
    for own in ("ada@xn--mnchen-3ya.example", "Ada@MÜNCHEN.example", "ada@strasse.example"):
        provider.claims = dict(ADA, email=own)
        assert session_in(await Traveller(api, provider).arrive()), own


async def test_provider_sign_in_still_needs_the_second_factor(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await factored(api, email=ADA["email"])
    await join(api, user)
    ada = Traveller(api, provider)
    first = await ada.arrive()
    assert "/sign-in/code?next=" in first.headers["location"]
    assert not session_in(first)
    assert session_in(await ada.post("/sign-in/code", otp=code_of(api)))
    (session,) = await sessions_of(api.live, user.id, api.clock())
    assert session.amr == ("otp", "mfa")
    how = {"provider": "corp", "second_factor": "authenticator"}
    assert ("sign_in", user.id, how) in await noted(api)


async def test_unlinking_ends_a_sign_in_that_waits_for_its_code(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await factored(api, email=ADA["email"])
    await join(api, user)
    ada = Traveller(api, provider)
    assert "/sign-in/code?next=" in (await ada.arrive()).headers["location"]
    (made,) = await api.live[ProviderStore].links_of(user.id)
    await unlink(api.live, user.id, made.id, OPERATOR)
    async with api.unchanged():
        answer = await ada.post("/sign-in/code", otp=code_of(api))
    assert "sign-in-again" in answer.headers["location"]
    assert not session_in(answer)


async def test_provider_sign_in_sets_up_a_required_factor(
    api: Api, provider: OpenIdProvider
) -> None:
    api.live.settings = replace(api.live.settings, require_second_factor="all")
    await linked(api)
    ada = Traveller(api, provider)
    first = await ada.arrive()
    assert "/sign-in/code?next=" in first.headers["location"]
    assert not session_in(first)
    assert "QR code" in (await ada.browser.get(HERE + first.headers["location"])).text


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


@ON_ONE
async def test_cross_site_callback_reloads_to_send_strict_cookies(
    api: Api, provider: OpenIdProvider
) -> None:
    await linked(api)
    ada = Traveller(api, provider)
    back = provider.visit(await ada.leave())
    from_there = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    first = await ada.browser.get(back, headers=from_there)
    assert first.status_code == 200
    assert 'http-equiv="refresh"' in first.text
    assert session_in(await ada.browser.get(back, headers={"sec-fetch-site": "same-origin"}))


ENCRYPTED = b64encode(b'{"alg":"RSA-OAEP","enc":"A128GCM"}').decode().rstrip("=")
LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"claims": {"nonce": "another"}},
    "no nonce": {"claims": {"nonce": None}},
    "another issuer": {"claims": {"iss": "https://evil.example.com"}},
    "another audience": {"claims": {"aud": "somebody else"}},
    "no audience": {"claims": {"aud": []}},
    "audiences without azp": {"claims": {"aud": [CLIENT, "other"]}},
    "another azp": {"claims": {"azp": "other"}},
    "another azp of two": {"claims": {"aud": [CLIENT, "other"], "azp": "other"}},
    "expired": {"claims": {"exp": 1_773_576_000 - 61}},
    "not valid yet": {"claims": {"nbf": 1_773_576_000 + 61}},
    "a beginning that is none": {"claims": {"nbf": "yesterday"}},
    "no end": {"claims": {"exp": None}},
    "an end that is none": {"claims": {"exp": "tomorrow"}},
    "a subject that is a number": {"claims": {"sub": 1}},
    "a subject that is a list": {"claims": {"sub": ["ada-1"]}},
    "no subject": {"claims": {"sub": None}},
    "an empty subject": {"claims": {"sub": ""}},
    "a subject too long": {"claims": {"sub": "a" * 256}},
    "a subject with NUL": {"claims": {"sub": "ada-1\0"}},
    "not signed": {"header": {"alg": "none"}, "key": None},
    "signed by the client's secret": {"header": {"alg": "HS256"}, "key": client_secret_key()},
    "another key": {"key": OTHER_KEY},
    "another key of that name": {"key": OTHER_KEY, "header": {"alg": "RS256", "kid": "first"}},
    "an unknown key": {"header": {"alg": "RS256", "kid": "unknown"}},
    "a header that is a list": {"bodies": {"/token": b'{"id_token": "WyJhbGciXQ.e30.AA"}'}},
    "a key for encryption": {"keys": [for_encryption()]},
    "no token": {"bodies": {"/token": b"{}"}},
    "a token that is none": {"bodies": {"/token": b'{"id_token": "a.b.c"}'}},
    "encrypted": {
        "bodies": {"/token": json.dumps({"id_token": f"{ENCRYPTED}.a.b.c.d"}).encode()},
        "logs": "its ID token is encrypted",
    },
    "an error with status 200": {
        "bodies": {"/token": b'{"error": "invalid_client", "error_description": "expired"}'},
        "logs": "it answered with something else and 'invalid_client': Object missing",
    },
    "not JSON": {"bodies": {"/token": b"<html>"}},
    "deep JSON": {"bodies": {"/token": b"[" * 100_000}},
    "keys that are none": {"bodies": {"/keys": b'{"keys": [{"kty": "RSA"}, {}]}'}},
    "keys of another shape": {"bodies": {"/keys": b'{"keys": 1}'}},
    "userinfo of somebody else": {
        "claims": {"email": None},
        "userinfo": {"sub": "eve", "email": "ada@example.com"},
    },
}


@ON_ONE
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
        provider.claims = ADA | values.get("claims", {})
        caplog.clear()
        async with api.unchanged(but="provider_visits"):
            answer = await Traveller(api, provider).arrive()
            assert answer.status_code == 403, lie
            assert "was not valid" in said(answer), lie
        assert f"corp signed nobody in: {logs}" in caplog.text, lie
        assert SECRET not in caplog.text
    vars(provider).update(honest)
    for iss in ("", "https://evil.example.com"):
        answer = await Traveller(api, provider).arrive(iss=iss)
        assert "was not valid" in said(answer)
    assert session_in(await Traveller(api, provider).arrive())


@ON_ONE
@pytest.mark.parametrize(
    ("error", "shown", "logged"),
    [
        ("invalid_scope", "reported invalid_scope", ["it reported 'invalid_scope'"]),
        ("login_required", "reported login_required", ["it reported 'login_required'"]),
        ("<script>", "reported an error", ["it reported '<script>'"]),
        ("access_denied", "was not allowed to sign you in", []),  # the person's own choice
    ],
)
async def test_providers_error_is_shown_and_logged_unless_access_was_denied(
    api: Api,
    provider: OpenIdProvider,
    caplog: pytest.LogCaptureFixture,
    error: str,
    shown: str,
    logged: list[str],
) -> None:
    await linked(api)
    async with api.unchanged(but="provider_visits"):
        answer = await Traveller(api, provider).arrive(code="", error=error)
    assert answer.status_code == 403
    assert shown in said(answer)
    logged = [f"corp signed nobody in: {reason}" for reason in logged]
    assert [text for text in caplog.messages if text.startswith("corp ")] == logged


@ON_ONE
async def test_unusual_but_valid_id_token_is_accepted(api: Api, provider: OpenIdProvider) -> None:
    await linked(api)
    provider.header = {"alg": "RS256", "x-ours": "unknown"}
    provider.claims |= {"aud": [CLIENT, "other"], "azp": CLIENT, "exp": 1_773_576_000 - 59}
    provider.claims["nbf"] = 1_773_576_000 + 59
    provider.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert session_in(await Traveller(api, provider).arrive())


@ON_ONE
@pytest.mark.parametrize("algorithm", openid.ALGORITHMS)
async def test_id_token_by_every_supported_algorithm_is_accepted(
    api: Api, provider: OpenIdProvider, algorithm: str
) -> None:
    await linked(api)
    provider.key, provider.header = KEYS[algorithm], {"alg": algorithm}
    provider.keys = [KEYS[algorithm]]
    assert session_in(await Traveller(api, provider).arrive())


@ON_ONE
@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
@pytest.mark.parametrize("curve", ["P-384", "Ed448", "X25519", "BP-256", ""])
async def test_key_of_an_unfitting_curve_is_skipped(
    api: Api, provider: OpenIdProvider, algorithm: str, curve: str
) -> None:
    await linked(api)
    good = KEYS[algorithm].as_dict(private=False)
    provider.key, provider.header = KEYS[algorithm], {"alg": algorithm}
    for keys, signed_in in (
        ([{**good, "crv": curve}], False),
        ([{**good, "crv": curve}, good], True),
    ):
        provider.bodies["/keys"] = json.dumps({"keys": keys}).encode()
        assert bool(session_in(await Traveller(api, provider).arrive())) == signed_in


@ON_ONE
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


@ON_ONE
async def test_ten_keys_are_tried_without_a_key_id(api: Api, provider: OpenIdProvider) -> None:
    await linked(api)
    provider.keys = [*[OTHER_KEY] * 99, FIRST_KEY]
    assert session_in(await Traveller(api, provider).arrive()), "its name is known"
    provider.header = {"alg": "RS256"}
    assert "was not valid" in said(await Traveller(api, provider).arrive())
    provider.keys = [*[OTHER_KEY] * 9, FIRST_KEY]
    assert session_in(await Traveller(api, provider).arrive())


COSTLY: dict[str, dict[str, Any]] = {
    "with a long exponent": {**OTHER_KEY.as_dict(private=False), "e": "x" * 340},
    "that are private": OTHER_KEY.as_dict(private=True),
}


@ON_ONE
@pytest.mark.parametrize("key", COSTLY.values(), ids=COSTLY)
async def test_expensive_key_is_not_tried(
    api: Api, provider: OpenIdProvider, key: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[dict[str, Any]] = []

    def import_key(public: dict[str, Any]) -> Any:
        tried.append(public)
        return jwk.import_key(public)

    monkeypatch.setattr(openid, "import_key", import_key)
    await linked(api)
    keys = [{"kty": "RSA", "e": "AQAB", **key, "kid": "first"}]
    keys *= 250_000 // len(json.dumps(keys))
    provider.bodies["/keys"] = json.dumps({"keys": keys}).encode()
    ada = Traveller(api, provider)
    back = provider.visit(await ada.leave())
    assert "was not valid" in said(await ada.browser.get(back))
    assert len(tried) <= 10
    for public in tried:
        assert len(public["e"]) <= 6
        assert "d" not in public


@ON_ONE
async def test_email_is_read_from_the_userinfo_endpoint(api: Api, provider: OpenIdProvider) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    provider.claims = {"sub": "ada-1"}
    provider.userinfo = {"sub": "ada-1", "email": ADA["email"], "email_verified": True}
    ada = Traveller(api, provider)
    assert not session_in(await ada.arrive())
    assert session_in(await ada.sign_in(user))
    await ada.decide("link")
    assert session_in(await Traveller(api, provider).arrive())


DEAF: dict[str, dict[str, Any]] = {
    "another issuer": {"metadata": {"issuer": "https://evil.example.com"}},
    "an endpoint without TLS": {"metadata": {"token_endpoint": "http://example.com/token"}},
    "a userinfo endpoint without TLS": {"metadata": {"userinfo_endpoint": "http://example.com/me"}},
    "a script": {"metadata": {"authorization_endpoint": "javascript:alert(1)"}},
    "another shape": {"metadata": {"jwks_uri": 5}},
    "a huge answer": {"bodies": {"/.well-known/openid-configuration": b" " * 262_145}},
    "nothing in time": {"hangs": {"/.well-known/openid-configuration"}},
}


@ON_ONE
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


@ON_ONE
@pytest.mark.parametrize("path", ["/token", "/keys", "/userinfo"])
@pytest.mark.parametrize(
    ("status", "told", "answered"),
    [
        (429, "does not respond as it should", 503),
        (500, "does not respond as it should", 503),
        (503, "does not respond as it should", 503),
        (302, "was not valid", 403),
        (400, "was not valid", 403),
        (404, "was not valid", 403),
    ],
)
async def test_busy_provider_is_503_and_a_refusing_one_403(
    api: Api,
    provider: OpenIdProvider,
    caplog: pytest.LogCaptureFixture,
    path: str,
    status: int,
    told: str,
    answered: int,
) -> None:
    await linked(api)
    del provider.claims["email"]
    provider.statuses[path] = status
    ada = Traveller(api, provider)
    back = provider.visit(await ada.leave())
    async with api.unchanged(but="provider_visits"):
        answer = await ada.browser.get(back)
        assert answer.status_code == answered
        assert told in said(answer)
    assert f"it answered with the status {status}" in caplog.text
    provider.statuses.clear()
    assert session_in(await Traveller(api, provider).arrive())


async def test_account_links_and_unlinks_a_provider(api: Api, provider: OpenIdProvider) -> None:
    user = await api.account(email="other@example.com", password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.sign_in(user)
    csrf = await ada.csrf()
    address = await ada.leave("/security/link", provider="corp", csrf=csrf)
    done = await ada.browser.get(provider.visit(address))
    assert done.headers["location"].endswith("/security?done=provider-linked"), done.text
    page = (await ada.browser.get(f"{DASHBOARD}/security")).text
    assert "ada@example.com" in page
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


@ON_ONE
async def test_linking_from_the_sandbox_returns_there(api: Api, provider: OpenIdProvider) -> None:
    ada = Traveller(api, provider)
    await ada.sign_in(await api.account(email="other@example.com", password=PASSWORD))
    path, csrf = "/sandbox/security/link", await ada.csrf()
    provider.statuses["/.well-known/openid-configuration"] = 500
    refused = await ada.post(path, provider="corp", csrf=csrf)
    assert refused.status_code == 503
    assert 'href="/dashboard/sign-in?next=%2Fdashboard%2Fsandbox%2Fsecurity"' in refused.text
    provider.statuses.clear()
    api.clock.advance(seconds=60)
    done = await ada.browser.get(provider.visit(await ada.leave(path, provider="corp", csrf=csrf)))
    assert done.headers["location"] == "/dashboard/sandbox/security?done=provider-linked"
    assert "ada@example.com" in (await ada.browser.get(HERE + done.headers["location"])).text


async def test_identity_linked_to_another_account_is_409(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await linked(api)
    eve = Traveller(api, provider)
    await eve.sign_in(await api.account(password=PASSWORD))
    address = await eve.leave("/security/link", provider="corp", csrf=await eve.csrf())
    async with api.unchanged(but="provider_visits"):
        answer = await eve.browser.get(provider.visit(address))
        assert answer.status_code == 409
        assert "linked to another account" in said(answer)
    assert len(await api.live[ProviderStore].links_of(user.id)) == 1


@ON_ONE
async def test_pending_link_is_dropped_after_the_providers_issuer_changes(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    ada = Traveller(api, provider)
    back = await ada.arrive()
    corp = api.live.sign_in_by["corp"]
    other = msgspec.structs.replace(corp, issuer="https://other.example.com", label="Other")
    api.live.sign_in_by["corp"] = other
    page = await ada.browser.get(HERE + back.headers["location"])
    assert "No account is linked" not in page.text
    assert session_in(await ada.sign_in(user))
    assert await api.live[ProviderStore].links_of(user.id) == []


@ON_ONE
async def test_link_taken_meanwhile_does_not_stop_the_sign_in(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"], password=PASSWORD)
    ada = Traveller(api, provider)
    await ada.arrive()
    await join(api, await api.account())
    assert session_in(await ada.sign_in(user))
    assert await api.live[ProviderStore].links_of(user.id) == []


@ON_ONE
async def test_link_begun_by_another_account_is_refused(api: Api, provider: OpenIdProvider) -> None:
    ada = Traveller(api, provider)
    await ada.sign_in(await api.account(password=PASSWORD))
    address = await ada.leave("/security/link", provider="corp", csrf=await ada.csrf())
    await ada.sign_in(await api.account(password=PASSWORD))
    async with api.unchanged(but="provider_visits"):
        answer = await ada.browser.get(provider.visit(address))
        assert "no longer signed in to the same account" in said(answer)


@ON_ONE
async def test_account_without_a_password_is_led_to_choose_one(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account(email=ADA["email"])
    await join(api, user)
    ada = Traveller(api, provider)
    assert session_in(await ada.arrive())
    for path, form in (
        ("/password", {"password": "Zrtq-99-Brontos"}),
        ("/email", {"email": "new@example.com"}),
    ):
        page = await ada.browser.get(DASHBOARD + path)
        assert 'name="current_password"' not in page.text
        assert 'href="/dashboard/forgot"' in page.text
        async with api.unchanged():
            sent = await ada.post(path, csrf=await ada.csrf(), current_password="x", **form)
        assert sent.status_code == 422
        assert "no password" in sent.text
    assert (await ada.browser.get(f"{DASHBOARD}/forgot")).status_code == 200
    caller = await api.caller(user=user)
    values = {"password": "Zrtq-99-Brontos", "current_password": "x"}
    answer = await caller.patch("/users/me", json=values)
    (fault,) = answer.json()["error"]["details"]
    assert "/dashboard/forgot" in fault["message"]


@ON_ONE
async def test_removal_of_a_factor_warns_about_the_factors_left(
    api: Api, provider: OpenIdProvider
) -> None:
    with_password, without = await factored(api), await factored(api, email=ADA["email"])
    await join(api, without)
    async with api.live.db.transaction() as tx:
        await tx.run("UPDATE users SET password_hash = NULL WHERE id = :id", {"id": without.id})
    ada, grace = Traveller(api, provider), Traveller(api, provider)
    await ada.arrive()
    await grace.sign_in(with_password)
    for one in (ada, grace):
        assert session_in(await one.post("/sign-in/code", otp=code_of(api)))
    admin = await api.account("admin", password=PASSWORD)
    boss = Traveller(api, provider)
    assert session_in(await boss.sign_in(admin))

    async def asked(person: Traveller, user: User) -> tuple[str, str]:
        app = (await api.live[FactorStore].of_user(user.id)).authenticator
        assert app
        own = await person.browser.get(f"{DASHBOARD}/security/remove?id={app.id}")
        reset = f"{DASHBOARD}/users/reset-second-factor?id={user.id}"
        return own.text, (await boss.browser.get(reset)).text

    own, reset = await asked(grace, with_password)
    assert "Your password alone will be enough to sign in" in own
    assert "Their password alone will be enough to sign in" in reset
    own, reset = await asked(ada, without)
    assert "recovery codes are deleted too" in own
    assert "password" not in own.partition("<main")[2]
    assert "has no password" in reset
    key = Passkey(0, without.id, "Key", b"id", b"key", 0, api.clock(), None)
    async with api.live.db.transaction() as tx:
        await api.live[FactorStore].add_passkey(tx, key)
    assert "recovery codes" not in (await asked(ada, without))[0].partition("<main")[2]
    api.live.settings = replace(api.live.settings, require_second_factor="all")
    own, reset = await asked(grace, with_password)
    assert "must set up an authenticator app" in own
    assert "must set up an authenticator app" in reset


async def test_last_provider_without_a_password_cannot_be_unlinked(api: Api) -> None:
    user = await api.account()
    await join(api, user)
    (made,) = await api.live[ProviderStore].links_of(user.id)
    async with api.unchanged():
        with pytest.raises(Conflict, match="set a password first"):
            await unlink(api.live, user.id, made.id, OPERATOR)


@ON_ONE
async def test_step_up_without_a_password_signs_in_at_the_provider(
    api: Api, provider: OpenIdProvider
) -> None:
    await join(api, await api.account())
    ada = Traveller(api, provider)
    for minutes in (0, 15):
        api.clock.advance(seconds=minutes * 60)
        provider.claims["exp"] = api.clock() // 1000 + 60
        await ada.arrive()
        csrf = await ada.csrf()
        asked = await ada.post("/security/link", provider="corp", csrf=csrf)
        assert "/dashboard/sign-in?again=yes" in asked.text
        assert 'name="current_password"' not in asked.text
    page = await ada.browser.get(f"{DASHBOARD}/sign-in?again=yes")
    assert 'name="again" value="yes"' in page.text
    address = await ada.leave(again="yes")
    assert "prompt=login&max_age=600" in address
    assert session_in(await ada.browser.get(provider.visit(address)))
    assert "http" in await ada.leave("/security/link", provider="corp", csrf=await ada.csrf())


@ON_ONE
@pytest.mark.parametrize("listed", [["sub", "auth_time"], ["sub"]])
async def test_fresh_provider_sign_in_needs_a_recent_auth_time(
    api: Api, provider: OpenIdProvider, listed: list[str]
) -> None:
    await join(api, await api.account())
    provider.metadata["claims_supported"] = listed
    ada = Traveller(api, provider)
    begun = api.clock() // 1000
    for auth_time, good in (
        (begun - 86_400, False),
        (begun - SKEW - 1, False),
        ("yesterday", False),
        (True, False),
        (None, "auth_time" not in listed),
        (begun - SKEW, True),
        (begun + 90.5, True),
    ):
        provider.claims["auth_time"] = auth_time
        address = await ada.leave(again="yes")
        api.clock.advance(seconds=100)
        answer = await ada.browser.get(provider.visit(address))
        api.clock.advance(seconds=-100)
        assert bool(session_in(answer)) == good, auth_time
        assert good or "was not valid" in said(answer)
    provider.claims["auth_time"] = begun - 86_400
    assert session_in(await ada.arrive()), "an ordinary sign-in"


@ON_ONE
async def test_fresh_provider_sign_in_may_take_minutes(api: Api, provider: OpenIdProvider) -> None:
    await join(api, await api.account())
    ada = Traveller(api, provider)
    address = await ada.leave(again="yes")
    # Microsoft's ID tokens end `max_age` after the password.
    (max_age,) = parse_qs(urlsplit(address).query)["max_age"]
    seen = api.clock() // 1000 + 5
    provider.claims |= {"auth_time": seen, "exp": seen + int(max_age)}
    api.clock.advance(seconds=500)
    assert session_in(await ada.browser.get(provider.visit(address)))


@ON_ONE
@pytest.mark.parametrize("listed", [None, "auth_time", {"auth_time": 1}, [None, 5]])
async def test_malformed_claims_supported_is_ignored(
    api: Api, provider: OpenIdProvider, listed: Any
) -> None:
    await join(api, await api.account())
    provider.metadata["claims_supported"] = listed
    ada = Traveller(api, provider)
    assert session_in(await ada.arrive())
    assert session_in(await ada.browser.get(provider.visit(await ada.leave(again="yes"))))


async def is_asked(somebody: Traveller) -> bool:
    """Whether they are asked who they are before something important."""
    path, csrf = "/security/link", await somebody.csrf()
    return "Confirm that it is you" in (await somebody.post(path, provider="corp", csrf=csrf)).text


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
    page = await ada.post("/keys", csrf=csrf, name="Till", type="live", expiry="90d")
    assert "Confirm that it is you" in page.text
    token = re.search(r'name="step_up" value="([^"]+)"', page.text)
    assert token, page.text
    form = {"name": "Till", "type": "live", "expiry": "90d", "step_up": token[1]}
    done = await ada.post("/keys", csrf=csrf, current_password=PASSWORD, **form)
    assert done.status_code == 303, done.text
    assert not await is_asked(ada), "fresh from now on"


@ON_ONE
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


@ON_ONE
async def test_browser_cannot_turn_a_visit_into_a_fresh_one(
    api: Api, provider: OpenIdProvider
) -> None:
    await join(api, await api.account())
    ada = Traveller(api, provider)
    address = await ada.leave()
    secret = ada.browser.cookies["__Host-provider"]
    forged = f"again_{secret}"
    there = address.replace(Trip.of(secret).state, Trip.of(forged).state)
    for kept, way, good in ((forged, there, False), (secret, address, True)):
        ada.browser.cookies.clear()
        ada.browser.headers["cookie"] = f"__Host-provider={kept}"
        answer = await ada.browser.get(provider.visit(way))
        assert bool(session_in(answer)) == good
        assert good or "not started in this browser" in said(answer)


@ON_ONE
async def test_setting_up_an_app_adds_no_password_to_amr(
    api: Api, provider: OpenIdProvider
) -> None:
    user = await api.account()
    await join(api, user)
    await Traveller(api, provider).arrive()
    (session,) = await sessions_of(api.live, user.id, api.clock())
    enrolment = Enrolment(KEY, step_of(api.clock()), "Phone", CODES)
    await enrol(api.live, user.id, enrolment, session.id, OPERATOR)
    (session,) = await sessions_of(api.live, user.id, api.clock())
    assert session.amr == ("otp", "mfa")


@ON_ONE
async def test_sandbox_knows_no_providers(api: Api) -> None:
    page = await api.stranger().get(f"{AUTH['sandbox']}/sign-in")
    assert page.status_code == 200
    assert "Corp" not in page.text
