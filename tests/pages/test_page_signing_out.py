"""Signing out: whoever presses that button is signed out, whatever has become of the session."""

import pytest

from driving import Api
from pages.visiting import ORIGIN, Visitor, said, signed_in, visitor
from portico.core.audit import OPERATOR
from portico.features.signin.service import sign_out_everywhere
from signing_in import COOKIE

PLACES = ["https://localhost:8443/dashboard", "https://localhost:8443/auth"]


async def is_signed_in(one: Visitor) -> bool:
    """Whether a browser sees pages that strangers do not."""
    return (await one.get("/profile")).status_code == 200


@pytest.mark.parametrize("place", PLACES)
async def test_sign_out_of_an_ended_session_succeeds(api: Api, place: str) -> None:
    user, one = await signed_in(api)
    await sign_out_everywhere(api.live, user.id, OPERATOR)
    assert COOKIE in one.client.cookies
    async with api.unchanged():
        answer = await one.client.post(
            f"{place}/sign-out", data={"csrf": one.csrf}, headers={"origin": ORIGIN}
        )
    page = await one.client.get(ORIGIN + answer.headers["location"])
    assert said(page, "status") == "You are signed out."
    assert COOKIE not in one.client.cookies


async def test_sign_out_without_own_csrf_token_is_forbidden(api: Api) -> None:
    _, one = await signed_in(api)
    _, other = await signed_in(api)
    async with api.unchanged():
        for token in ("", other.csrf, "é"):
            assert (await one.send("/sign-out", {"csrf": token})).status_code == 403
    assert await is_signed_in(one)


@pytest.mark.parametrize("signed_in_there", [True, False])
@pytest.mark.parametrize("origin", ["https://evil.test", "null"])
async def test_sign_out_from_a_foreign_origin_is_forbidden(
    api: Api, origin: str, *, signed_in_there: bool
) -> None:
    _, one = await signed_in(api)
    sender = one if signed_in_there else await visitor(api)  # without a strict cookie
    async with api.unchanged():
        answer = await sender.send("/sign-out", {"csrf": one.csrf}, origin=origin)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert await is_signed_in(one)
