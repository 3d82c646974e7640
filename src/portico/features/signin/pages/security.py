"""Sign-in security: an account's second factors."""

from portico.core.errors import Conflict, NotFound
from portico.features.signin.pages.providers import linked
from portico.features.signin.pages.sign_in import enrolment_page, recovery_codes_page
from portico.features.signin.pages.step_up import fresh
from portico.features.signin.passkeys import add_passkey, creation_options
from portico.features.signin.rules import (
    AUTHENTICATOR,
    PASSKEY,
    Authenticator,
    Passkey,
    factor_name,
)
from portico.features.signin.second_factor import (
    enrol,
    read_enrolment,
    remove_factor,
    rename_factor,
    renew_recovery_codes,
)
from portico.features.signin.service import must_enrol
from portico.features.signin.storage import FactorStore
from portico.web.messages import Reply
from portico.web.pages.sent_once import fresh_key, once, shown_once
from portico.web.pages.site import PageRoute, Visit, options_reply


async def show(visit: Visit) -> Reply:
    factors = await visit.env[FactorStore].of_user(visit.user.id)
    return visit.page(
        "security.html",
        "Sign-in security",
        factors=factors,
        links=await linked(visit),
        providers=visit.env.sign_in_by.values(),
    )


async def show_app(visit: Visit) -> Reply:
    """GET /security/app. Redirects to the factors if the account already has an app."""
    factors = await visit.env[FactorStore].of_user(visit.user.id)
    if factors.authenticator is not None and visit.request.method == "GET":
        return visit.go("/security")
    return enrolment_page(visit, visit.user, first=False, once=fresh_key(visit))


async def add_app(visit: Visit) -> Reply:
    form, user_id = visit.form, visit.user.id
    name, code = form.read("name", factor_name), form.read("otp", str.strip) or ""
    enrolment = read_enrolment(visit.env, user_id, form.text("secret"), code, name)
    form.check()
    return await shown_once(
        visit,
        lambda by: enrol(visit.env, user_id, enrolment, visit.session_id, by),
        lambda codes: _codes(visit, codes),
    )


def _codes(visit: Visit, codes: tuple[str, ...]) -> Reply:
    return recovery_codes_page(visit, visit.user, codes, f"{visit.site.base}/security")


async def show_passkey(visit: Visit) -> Reply:
    options = await creation_options(visit.env, visit.user, visit.session_id)
    return visit.page("passkey.html", "Add a passkey", passkey_options=options)


async def show_options(visit: Visit) -> Reply:
    """GET /security/passkey/options: a new challenge, as JSON."""
    return options_reply(await creation_options(visit.env, visit.user, visit.session_id))


async def keep_passkey(visit: Visit) -> Reply:
    name, answer = visit.form.read("name", factor_name), visit.form.text("credential")
    visit.form.check()
    codes = await add_passkey(
        visit.env,
        visit.user.id,
        visit.session_id,
        answer=answer,
        name=name,
        by=visit.request.by,
    )
    if not codes:
        return visit.go("/security", done="factor-added")
    return await once(visit, _codes(visit, codes), visit.user)


def _kind(visit: Visit) -> str:
    return PASSKEY if visit.sent("kind") == PASSKEY else AUTHENTICATOR


async def _own(visit: Visit) -> Authenticator | Passkey:
    """The factor that the form or the query names. Raises `NotFound`."""
    factors = await visit.env[FactorStore].of_user(visit.user.id)
    if found := factors.find(_kind(visit), visit.sent_id()):
        return found
    raise NotFound("You no longer have this second factor. It may have been removed.")


async def show_rename(visit: Visit) -> Reply:
    app = await _own(visit)
    return visit.page("factor_name.html", f"Rename {app.name}", app=app, kind=visit.sent("kind"))


async def rename(visit: Visit) -> Reply:
    app = await _own(visit)
    name = visit.form.read("name", factor_name)
    visit.form.check()
    await rename_factor(visit.env, visit.user.id, _kind(visit), app.id, name, visit.request.by)
    return visit.go("/security", done="factor-renamed")


async def ask_remove(visit: Visit) -> Reply:
    app = await _own(visit)
    return visit.asks(
        f"Remove {app.name}?",
        await _what_remains(visit),
        words="Remove",
        danger=True,
        action="/security/remove",
        back=("/security", "Sign-in security"),
        id=app.id,
        kind=visit.sent("kind"),
    )


async def _what_remains(visit: Visit) -> str:
    factors = await visit.env[FactorStore].of_user(visit.user.id)
    if len(factors.passkeys) + (factors.authenticator is not None) > 1:
        return "It stops working."
    gone = "It stops working, and your recovery codes are deleted too."
    if must_enrol(visit.env, visit.user):
        return f"{gone} You must set up an authenticator app when you next sign in."
    if visit.user.password_hash is None:
        return gone
    return f"{gone} Your password alone will be enough to sign in."


async def remove(visit: Visit) -> Reply:
    app = await _own(visit)
    await remove_factor(visit.env, visit.user.id, _kind(visit), app.id, visit.request.by)
    return visit.go("/security", done="factor-removed")


async def ask_renew(visit: Visit) -> Reply:
    if not await visit.env[FactorStore].of_user(visit.user.id):
        raise Conflict("Recovery codes replace a second factor. Set one up first.")
    return visit.asks(
        "Create new recovery codes?",
        "The codes that you saved before stop working.",
        words="Create new codes",
        action="/security/recovery-codes",
        back=("/security", "Sign-in security"),
        once=fresh_key(visit),
    )


async def renew(visit: Visit) -> Reply:
    return await shown_once(
        visit,
        lambda by: renew_recovery_codes(visit.env, visit.user.id, by),
        lambda codes: _codes(visit, codes),
    )


PAGES = (
    PageRoute("GET", "/security", show),
    PageRoute("GET", "/security/app", show_app),
    PageRoute("POST", "/security/app", fresh(add_app)),
    PageRoute("GET", "/security/passkey", show_passkey),
    PageRoute("POST", "/security/passkey", fresh(keep_passkey)),
    PageRoute("GET", "/security/passkey/options", show_options),
    PageRoute("GET", "/security/rename", show_rename),
    PageRoute("POST", "/security/rename", fresh(rename)),
    PageRoute("GET", "/security/remove", ask_remove),
    PageRoute("POST", "/security/remove", fresh(remove)),
    PageRoute("GET", "/security/recovery-codes", ask_renew),
    PageRoute("POST", "/security/recovery-codes", fresh(renew)),
)
