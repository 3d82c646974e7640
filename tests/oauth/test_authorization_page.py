"""The authorization endpoint as browsers see it: who is asked what, and what clients are told."""

from collections.abc import Iterator

import httpx
import pytest

from oauth.authority import SCOPES, STATE, WEB_APP, Authority, Registered
from oauth.visiting import Browser, Page


def is_consent(page: Page) -> bool:
    """Whether a page asks for consent."""
    return page.status == 200 and page.has("decision")


def is_sign_in(page: Page) -> bool:
    """Whether a page asks who the user is."""
    return page.status == 200 and page.has("email", "password")


def token_of(authority: Authority, client: Registered, page: Page) -> dict[str, str]:
    """What the code that a browser brings back buys."""
    answer = authority.exchange(client, page.told["code"])
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.fixture(scope="module")
def signed_in(authority: Authority, web_app: Registered) -> Iterator[tuple[Browser, Page]]:
    """A browser whose user is signed in, and a form that would grant a code."""
    with authority.browser() as browser:
        yield browser, browser.arrive(authority.asking(web_app))


def test_a_user_signs_in_consents_and_comes_back_with_code_state_and_issuer(
    authority: Authority, browser: Browser
) -> None:
    client = authority.register(name="<script>alert(1)</script>")
    first = browser.visit(authority.asking(client))
    assert is_sign_in(first)
    again = browser.submit(first, email=browser.person.email, password="Wrong1-password")
    assert again.status == 422
    assert not browser.cookies
    consent = browser.sign_in(again)
    assert is_consent(consent)
    assert "<script>alert" not in consent.text
    assert "&lt;script&gt;" in consent.text
    assert "shop.example" in consent.text
    for page in (first, consent):
        policy = page.response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert page.response.headers["cache-control"] == "no-store"
        assert page.response.headers["x-content-type-options"] == "nosniff"
        assert page.response.headers["cross-origin-opener-policy"] == "same-origin"
    back = browser.submit(consent, decision="allow")
    assert back.left_for.startswith(f"{WEB_APP}?")
    assert back.told == {"code": back.told["code"], "state": STATE, "iss": authority.issuer}
    assert back.response.headers["cache-control"] == "no-store"
    assert token_of(authority, client, back)["scope"] == SCOPES
    codes = authority.counted("authorization_codes")
    denied = browser.submit(
        browser.visit(authority.asking(client, prompt="consent")), decision="deny"
    ).told
    assert denied.pop("error_description")
    assert denied == {"error": "access_denied", "state": STATE, "iss": authority.issuer}
    assert authority.counted("authorization_codes") == codes


def forged(browser: Browser, page: Page, **changes: str | None) -> httpx.Response:
    """Consent sent as `changes` have it: `csrf`, `origin`, `site`."""
    form = next(form for form in page.forms if "decision" in form.buttons)
    sent = {"decision": "allow", **form.sent, "csrf": changes.get("csrf", form.sent["csrf"])}
    origin = changes.get("origin", browser.origin)
    return browser.ask(
        "POST",
        page.url,
        data={name: text for name, text in sent.items() if text is not None},
        headers={
            **({"origin": origin} if origin else {}),
            "sec-fetch-site": changes.get("site") or "same-origin",
        },
    )


FORGERIES: dict[str, dict[str, str | None]] = {
    "no csrf": {"csrf": None},
    "made-up csrf": {"csrf": "0" * 32},
    "foreign origin": {"origin": "https://shop.example"},
    "http origin": {"origin": "http://localhost"},
    "null origin from elsewhere": {"origin": "null", "site": "cross-site"},
    "no origin from a neighbour": {"origin": None, "site": "same-site"},
}


def test_a_forged_consent_is_refused(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    consent = browser.arrive(authority.asking(web_app))
    codes = authority.counted("authorization_codes")
    with authority.browser() as attacker:
        page = attacker.arrive(authority.asking(web_app))
        theirs = next(form for form in page.forms if "decision" in form.buttons).sent["csrf"]
    others: dict[str, dict[str, str | None]] = {"another's csrf": {"csrf": theirs}}
    for name, changes in (FORGERIES | others).items():
        answer = forged(browser, consent, **changes)
        assert (answer.status_code, "location" in answer.headers) == (403, False), name
    assert authority.counted("authorization_codes") == codes
    assert forged(browser, consent).status_code == 303, "unchanged it works"


def test_who_was_signed_out_in_the_middle_signs_in_and_is_asked_the_same_again(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    consent = browser.arrive(authority.asking(web_app))
    kept = browser.cookies.copy()
    browser.ask("DELETE", f"{authority.api}/sessions", headers={"origin": browser.origin})
    browser.cookies = kept
    codes = authority.counted("authorization_codes")
    stopped = browser.submit(consent, decision="allow")
    assert is_sign_in(stopped)
    assert "You were signed out, so access was neither allowed nor denied." in stopped.text
    assert authority.counted("authorization_codes") == codes
    again = browser.sign_in(stopped)
    assert is_consent(again)
    assert again.url == consent.url
    back = browser.submit(again, decision="allow")
    assert back.told["state"] == STATE
    assert token_of(authority, web_app, back)["scope"] == SCOPES


def test_who_wants_another_account_comes_back_to_the_same_request(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    consent = browser.arrive(authority.asking(web_app))
    stranger = browser.submit(consent, next=consent.url.removeprefix(authority.origin))
    assert is_sign_in(stranger)
    assert browser.cookies.keys() == {"__Host-device"}, "which opens nothing"
    assert is_consent(browser.sign_in(stranger))


def test_a_client_that_is_deleted_in_the_middle_gets_nothing(
    authority: Authority, browser: Browser
) -> None:
    client = authority.register(name="Fleeting")
    code = browser.submit(browser.arrive(authority.asking(client)), decision="allow").told["code"]
    consent = browser.visit(authority.asking(client, prompt="consent"))
    assert is_consent(consent)
    authority.installation.told("clients", "delete", client.client_id)
    stopped = browser.submit(consent, decision="allow")
    assert stopped.status == 400
    assert "location" not in stopped.response.headers
    refused = authority.exchange(client, code)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("decision", ["deny", "allow"])
def test_whose_role_allows_nothing_of_what_is_asked_is_told_and_so_is_the_client(
    authority: Authority, web_app: Registered, decision: str
) -> None:
    codes = authority.counted("authorization_codes")
    with authority.browser("viewer") as browser:
        consent = browser.arrive(authority.asking(web_app, scope="write:products"))
        assert is_consent(consent)
        assert "Your role (viewer) does not allow anything it asks for." in consent.text
        assert "It will be able to" not in consent.text
        assert 'value="allow"' not in consent.text
        told = browser.submit(consent, decision=decision).told
    assert told["error"] == "access_denied"
    assert told["state"] == STATE
    assert authority.counted("authorization_codes") == codes


EVIL = "https://evil.example/callback"


@pytest.mark.parametrize(
    ("uri", "more"),
    [
        (EVIL, ""),
        (f"{WEB_APP}%0d%0ax:y", ""),
        (WEB_APP, f"&redirect_uri={EVIL}"),
        (WEB_APP, "&state=%FF"),
        (WEB_APP, "&a=1" * 60),
    ],
)
def test_a_request_for_an_unknown_address_goes_nowhere(
    authority: Authority, web_app: Registered, signed_in: tuple[Browser, Page], uri: str, more: str
) -> None:
    browser, form = signed_in
    url = authority.asking(web_app, uri) + more
    codes = authority.counted("authorization_codes")
    csrf = next(form.sent["csrf"] for form in form.forms if "decision" in form.buttons)
    consent = {"csrf": csrf, "decision": "allow"}
    for response in (
        browser.ask("GET", url),
        browser.ask("GET", url.replace("/auth/", "/sandbox/auth/")),
        browser.ask("POST", url, data=consent, headers={"origin": browser.origin}),
        browser.ask("POST", url, data={**consent, "decision": "deny"}),
    ):
        assert response.status_code == 400
        assert "location" not in response.headers
        assert "refresh" not in response.headers
        assert response.headers["content-type"].startswith("text/html")
        assert "http-equiv" not in response.text
        assert "Authorization failed" in response.text
    assert authority.counted("authorization_codes") == codes
