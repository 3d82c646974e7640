"""The authorization endpoint as browsers see it: who is asked what, and what clients are told."""

import re
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
import pytest

from oauth.authority import SCOPES, STATE, WEB_APP, Authority, Registered
from oauth.visiting import Browser, Page

LONG_STATE = '{"":' * 1_024
"""Characters that are escaped, by three bytes in an address and by five in an address within it."""


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


def test_a_user_signs_in_consents_and_comes_back_with_code_state_and_issuer(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    first = browser.visit(authority.asking(web_app))
    assert is_sign_in(first)
    consent = browser.sign_in(first)
    assert is_consent(consent)
    assert "Storefront" in consent.text
    assert "shop.example" in consent.text
    back = browser.submit(consent, decision="allow")
    assert back.left_for.startswith(f"{WEB_APP}?")
    assert back.told == {
        "code": back.told["code"],
        "state": STATE,
        "iss": authority.issuer,
    }
    assert back.response.headers["cache-control"] == "no-store"
    assert token_of(authority, web_app, back)["scope"] == SCOPES


def test_pages_are_not_framed_kept_run_or_held_by_who_opened_them(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    first = browser.visit(authority.asking(web_app))
    consent = browser.sign_in(first)
    for page in (first, consent):
        policy = page.response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert page.response.headers["cache-control"] == "no-store"
        assert page.response.headers["x-content-type-options"] == "nosniff"
        assert page.response.headers["cross-origin-opener-policy"] == "same-origin"


def test_the_name_of_a_client_is_text(authority: Authority, browser: Browser) -> None:
    client = authority.register(name="<script>alert(1)</script>")
    consent = browser.arrive(authority.asking(client))
    assert "<script>alert" not in consent.text
    assert "&lt;script&gt;" in consent.text


def test_a_wrong_password_is_told_and_the_right_one_goes_on(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    first = browser.visit(authority.asking(web_app))
    again = browser.submit(first, email=browser.person.email, password="Wrong1-password")
    assert again.status == 422
    assert not browser.cookies
    assert is_consent(browser.sign_in(again))


def test_denying_tells_the_client_and_grants_nothing(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    codes = authority.counted("authorization_codes")
    told = browser.submit(browser.arrive(authority.asking(web_app)), decision="deny").told
    assert told == {
        "error": "access_denied",
        "error_description": told["error_description"],
        "state": STATE,
        "iss": authority.issuer,
    }
    assert authority.counted("authorization_codes") == codes


FAULTS = {
    "no response type": ({"response_type": ""}, "invalid_request"),
    "implicit": ({"response_type": "token"}, "unsupported_response_type"),
    "hybrid": ({"response_type": "code id_token"}, "unsupported_response_type"),
    "fragment": ({"response_mode": "fragment"}, "invalid_request"),
    "form post": ({"response_mode": "form_post"}, "invalid_request"),
    "scope beyond registration": ({"scope": "admin"}, "invalid_scope"),
    "unknown scope": ({"scope": "read:everything"}, "invalid_scope"),
    "plain challenge": ({"code_challenge_method": "plain"}, "invalid_request"),
    "challenge without method": ({"code_challenge_method": ""}, "invalid_request"),
    "method without challenge": ({"code_challenge": ""}, "invalid_request"),
    "short challenge": ({"code_challenge": "abc"}, "invalid_request"),
    "request object": ({"request": "eyJ"}, "request_not_supported"),
    "request by address": ({"request_uri": "https://x.example"}, "request_uri_not_supported"),
    "registration": ({"registration": "{}"}, "registration_not_supported"),
    "prompt of two minds": ({"prompt": "none login"}, "invalid_request"),
    "unknown prompt": ({"prompt": "shout"}, "invalid_request"),
    "negative age": ({"max_age": "-1"}, "invalid_request"),
    "age in words": ({"max_age": "ten"}, "invalid_request"),
    "long nonce": ({"nonce": "n" * 2_001}, "invalid_request"),
}


@pytest.mark.parametrize(("wishes", "error"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_client_is_told_to_it_with_state_and_issuer(
    authority: Authority,
    web_app: Registered,
    browser: Browser,
    wishes: dict[str, str],
    error: str,
) -> None:
    page = browser.visit(authority.asking(web_app, **wishes))
    assert page.left_for.startswith(f"{WEB_APP}?")
    assert page.told["error_description"]
    assert (page.told["error"], page.told["state"], page.told["iss"]) == (
        error,
        STATE,
        authority.issuer,
    )
    assert "code" not in page.told


@pytest.mark.parametrize("asked_by", ["GET", "POST"])
def test_a_long_state_survives_sign_in_and_consent(
    authority: Authority, web_app: Registered, browser: Browser, asked_by: str
) -> None:
    url = authority.asking(web_app, state=LONG_STATE)
    if asked_by == "POST":
        address, _, query = url.partition("?")
        form = dict(parse_qsl(query))
        redirect = browser.ask("POST", address, site="cross-site", data=form)
        url = urljoin(address, redirect.headers["location"])
    back = browser.submit(browser.arrive(url), decision="allow")
    assert back.told["state"] == LONG_STATE
    assert back.told.keys() == {"code", "state", "iss"}


def test_a_state_that_is_too_long_is_told_with_it(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    told = browser.visit(authority.asking(web_app, state=f"{LONG_STATE}!")).told
    assert (told["error"], told["state"]) == ("invalid_request", f"{LONG_STATE}!")


def test_a_doubled_parameter_is_told_without_its_value(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    told = browser.visit(f"{authority.asking(web_app)}&state=other").told
    assert told["error"] == "invalid_request"
    assert "state" not in told
    told = browser.visit(f"{authority.asking(web_app)}&scope=openid").told
    assert (told["error"], told["state"]) == ("invalid_request", STATE)


def test_a_public_client_must_send_a_challenge(
    authority: Authority, native_app: Registered, browser: Browser
) -> None:
    url = authority.asking(
        native_app,
        "http://127.0.0.1:1234/callback",
        code_challenge="",
        code_challenge_method="",
    )
    assert browser.visit(url).told["error"] == "invalid_request"


def test_unknown_parameters_are_ignored(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    url = authority.asking(web_app, audience="x", ui_locales="de", login_hint="a@b.example", x="\\")
    back = browser.submit(browser.arrive(url), decision="allow")
    assert back.told.keys() == {"code", "state", "iss"}
    assert token_of(authority, web_app, back)["access_token"]


def test_without_a_wish_for_scopes_all_that_are_registered_are_asked_for(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    back = browser.submit(browser.arrive(authority.asking(web_app, scope="")), decision="allow")
    assert token_of(authority, web_app, back)["scope"] == SCOPES


def test_prompt_none_never_shows_a_page(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    silent = authority.asking(web_app, prompt="none")
    told = browser.visit(silent).told
    assert (told["error"], told["state"]) == ("login_required", STATE)
    browser.arrive(authority.asking(web_app))
    for site, error in {
        "same-origin": "consent_required",
        "none": "consent_required",
        "cross-site": "login_required",  # the cookie is kept back, so nobody can be seen
    }.items():
        told = Page(silent, browser.ask("GET", silent, site=site)).told
        assert (told["error"], told["state"]) == (error, STATE), site


def test_prompt_none_in_a_frame_of_another_site_says_that_nobody_is_signed_in(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    browser.arrive(authority.asking(web_app))
    framed = {"sec-fetch-dest": "iframe"}
    silent = authority.asking(web_app, prompt="none")
    response = browser.ask("GET", silent, site="cross-site", headers=framed)
    assert Page(silent, response).told["error"] == "login_required"


@pytest.mark.parametrize(
    "wishes", [{"prompt": "login"}, {"max_age": "0"}, {"prompt": "select_account consent"}], ids=str
)
def test_who_must_sign_in_anew_does_so_once(
    authority: Authority, web_app: Registered, browser: Browser, wishes: dict[str, str]
) -> None:
    url = authority.asking(web_app, scope="openid", nonce="n", **wishes)
    stranger = browser.visit(url)
    assert is_sign_in(stranger)
    assert is_consent(browser.sign_in(stranger))
    before = browser.cookies.copy()
    anew = browser.visit(url)
    assert is_sign_in(anew)
    consent = browser.sign_in(anew)
    assert is_consent(consent)
    assert browser.cookies != before, "a new session took the old one's place"
    assert "id_token" in token_of(authority, web_app, browser.submit(consent, decision="allow"))


@pytest.mark.parametrize("wishes", [{"prompt": "consent"}, {"max_age": "3600"}], ids=str)
def test_who_signed_in_lately_is_asked_for_consent_at_once(
    authority: Authority, web_app: Registered, browser: Browser, wishes: dict[str, str]
) -> None:
    browser.arrive(authority.asking(web_app))
    assert is_consent(browser.visit(authority.asking(web_app, **wishes)))


def test_a_first_visit_from_another_site_loads_itself_again_to_see_the_cookie(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    url = authority.asking(web_app)
    browser.arrive(url)
    answer = browser.ask("GET", url, site="cross-site")
    assert answer.status_code == 200
    assert "location" not in answer.headers
    assert '<meta http-equiv="refresh" content="0">' in answer.text
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert is_consent(browser.visit(url, site="cross-site"))


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
    "empty csrf": {"csrf": ""},
    "made-up csrf": {"csrf": "0" * 32},
    "foreign origin": {"origin": "https://shop.example"},
    "http origin": {"origin": "http://localhost"},
    "null origin from elsewhere": {"origin": "null", "site": "cross-site"},
    "no origin from elsewhere": {"origin": None, "site": "cross-site"},
    "no origin from a neighbour": {"origin": None, "site": "same-site"},
}


@pytest.mark.parametrize("changes", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_consent_is_refused(
    authority: Authority, web_app: Registered, browser: Browser, changes: dict[str, str | None]
) -> None:
    consent = browser.arrive(authority.asking(web_app))
    codes = authority.counted("authorization_codes")
    answer = forged(browser, consent, **changes)
    assert answer.status_code == 403
    assert "location" not in answer.headers
    assert authority.counted("authorization_codes") == codes
    assert forged(browser, consent).status_code == 303, "unchanged it works"


def test_the_form_of_another_session_is_refused(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    with authority.browser() as attacker:
        page = attacker.arrive(authority.asking(web_app))
        theirs = next(form for form in page.forms if "decision" in form.buttons).sent["csrf"]
    consent = browser.arrive(authority.asking(web_app))
    assert forged(browser, consent, csrf=theirs).status_code == 403


@pytest.mark.parametrize("way", ["the cookie is gone", "the session has ended"])
def test_who_was_signed_out_in_the_middle_signs_in_and_is_asked_the_same_again(
    authority: Authority, web_app: Registered, browser: Browser, way: str
) -> None:
    consent = browser.arrive(authority.asking(web_app))
    if way == "the cookie is gone":
        browser.cookies.clear()
    else:
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
    consent = browser.visit(authority.asking(client))
    assert is_consent(consent)
    authority.installation.told("clients", "delete", client.client_id)
    stopped = browser.submit(consent, decision="allow")
    assert stopped.status == 400
    assert "location" not in stopped.response.headers
    refused = authority.exchange(client, code)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


def test_a_viewer_grants_what_a_viewer_has_and_the_client_is_told(
    authority: Authority, web_app: Registered
) -> None:
    with authority.browser("viewer") as browser:
        consent = browser.arrive(authority.asking(web_app, scope=f"openid {SCOPES}"))
        offered = re.findall(r"<li>.*?<span>(.*?)</span>", consent.text, re.DOTALL)
        token = token_of(authority, web_app, browser.submit(consent, decision="allow"))
    assert len(offered) == 2
    assert token["scope"] == "openid read:products"
    with authority.client(token["access_token"]) as program:
        assert program.get(f"{authority.api}/products").status_code == 200
        assert program.post(f"{authority.api}/products", json={}).status_code == 403


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


def test_a_viewer_lets_a_client_know_who_they_are_that_asks_for_more(
    authority: Authority, web_app: Registered
) -> None:
    with authority.browser("viewer") as browser:
        consent = browser.arrive(authority.asking(web_app, scope="openid write:products"))
        token = token_of(authority, web_app, browser.submit(consent, decision="allow"))
    assert token["scope"] == "openid"


def test_a_client_that_is_registered_for_nothing_still_signs_people_in(
    authority: Authority, browser: Browser
) -> None:
    client = authority.register(scope="")
    for scope in ("", "openid"):
        consent = browser.arrive(authority.asking(client, scope=scope))
        token = token_of(authority, client, browser.submit(consent, decision="allow"))
        assert token["scope"] == scope


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "https:evil.example",
        "/auth\\@evil.example",
        "javascript:alert(1)",
        "/authority.evil.example",
        "",
    ],
)
def test_signing_in_leads_to_no_other_site(
    authority: Authority, browser: Browser, target: str
) -> None:
    page = browser.visit(f"{authority.issuer}/sign-in", site="none")
    forms = [form for form in page.forms if "email" in form.sent]
    person = {"email": browser.person.email, "password": browser.person.password}
    answer = browser.ask(
        "POST",
        f"{authority.origin}{forms[0].action}",
        data={"next": target, **person},
        headers={"origin": browser.origin},
    )
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{authority.origin}/dashboard"


def test_a_client_of_the_other_environment_is_unknown(
    authority: Authority, web_app: Registered, browser: Browser
) -> None:
    there = authority.asking(web_app).replace("/auth/", "/sandbox/auth/")
    page = browser.visit(there)
    assert page.status == 400
    assert urlsplit(page.url).path == "/sandbox/auth/authorize"
