"""What pages say to browsers that keep no cookies, to two tabs, and to who has waited."""

import pytest

from driving import Api
from pages.visiting import DASHBOARD, PASSWORD, Visitor, said, visitor
from portico.core.audit import OPERATOR
from portico.core.users import User
from portico.features.signin.rules import step_of
from portico.features.signin.second_factor import Enrolment, add_authenticator, remove_factor
from portico.features.signin.storage import FactorStore

KEY = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
CODES = ("aaaa-bbbb-cccc-dddd",)


async def with_app(api: Api) -> User:
    """Somebody whose password is not enough."""
    user = await api.account(password=PASSWORD)
    app = Enrolment(KEY, step_of(api.clock()) - 2, "Phone", CODES)
    await api.live.change(OPERATOR, lambda change: add_authenticator(api.live, change, user, app))
    return user


@pytest.mark.parametrize("has_app", [False, True])
async def test_sign_in_without_cookies_says_that_they_are_blocked(
    api: Api, *, has_app: bool
) -> None:
    user = await with_app(api) if has_app else await api.account(password=PASSWORD)
    one = await visitor(api)
    assert "cookies" not in (await one.get("/sign-in", referer=f"{DASHBOARD}/keys")).text
    answer = await one.send("/sign-in", {"email": user.email, "password": PASSWORD})
    while answer.status_code == 303:
        one.client.cookies.clear()
        where = answer.headers["location"].removeprefix("/dashboard")
        answer = await one.get(where, referer=f"{DASHBOARD}/sign-in?next=%2Fdashboard")
    assert "blocks cookies from this site" in said(answer)


async def half_signed_in(api: Api, user: User) -> Visitor:
    """Somebody who has typed their password."""
    one = await visitor(api)
    answer = await one.send("/sign-in", {"email": user.email, "password": PASSWORD})
    assert "/sign-in/code" in answer.headers["location"]
    return one


async def test_second_step_after_the_last_factor_is_removed_restarts_sign_in(api: Api) -> None:
    user = await with_app(api)
    one = await half_signed_in(api, user)
    app = (await api.live[FactorStore].of_user(user.id)).authenticator
    assert app
    await remove_factor(api.live, user.id, "authenticator", app.id, OPERATOR)
    async with api.unchanged():
        for answer in (await one.get("/sign-in/code"), await one.post("/sign-in/code", otp="1")):
            assert answer.status_code == 303
            page = await one.client.get(f"https://localhost:8443{answer.headers['location']}")
            assert "Sign in again." in said(page, "status")
    again = await one.send("/sign-in", {"email": user.email, "password": PASSWORD})
    assert again.headers["location"] == "/dashboard"


async def test_second_step_in_a_second_tab_uses_the_session_of_the_first(api: Api) -> None:
    one = await half_signed_in(api, await with_app(api))
    assert (await one.send("/sign-in/code", {"otp": CODES[0]})).headers["location"] == "/dashboard"
    second = await one.send("/sign-in/code", {"otp": CODES[0], "next": "/dashboard/keys"})
    page = await one.client.get(f"https://localhost:8443{second.headers['location']}")
    assert page.status_code == 303
    assert page.headers["location"] == "/dashboard/keys"
