"""Forms that are sent after their session has ended, or from an earlier one."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from driving import Api
from pages.visiting import ORIGIN, PASSWORD, said, signed_in
from portico.core.audit import OPERATOR
from portico.features.signin.service import sign_out_everywhere

pytestmark = pytest.mark.one_engine

PRODUCT = {"f-name": "Lamp <b>", "f-category": "light", "f-price": "12.50", "f-currency": "EUR"}
PRODUCT |= {"f-stock_quantity": "3", "f-status": "draft", "f-description": "Two\nlines"}


def led_to(answer: httpx.Response) -> str:
    """Where signing in leads to, for an answer that redirects there."""
    assert answer.status_code == 303, answer.text
    where = urlsplit(answer.headers["location"])
    assert where.path.endswith("/sign-in")
    return parse_qs(where.query)["next"][0]


async def test_form_of_an_ended_session_is_not_carried_out_and_sign_in_says_so(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    await editor.get("/products/new?page=2")
    await sign_out_everywhere(api.live, user.id, OPERATOR)
    async with api.unchanged():
        answer = await editor.post("/products/new?page=2", **PRODUCT)
    assert led_to(answer) == "/dashboard/products/new?page=2"
    page = await editor.client.get(ORIGIN + answer.headers["location"])
    assert "You were signed out, so nothing was sent." in said(page, "status")


async def test_form_of_an_earlier_session_is_shown_again_to_its_sender_alone(api: Api) -> None:
    user, editor = await signed_in(api, "editor")
    await editor.get("/products/new")
    old = editor.csrf
    await editor.send("/sign-in", {"email": user.email, "password": PASSWORD})
    async with api.unchanged():
        page = await editor.send("/products/new", {**PRODUCT, "csrf": old})
    assert page.status_code == 409
    assert "You are signed in again, and nothing was sent yet." in said(page, "status")
    assert "Lamp &lt;b&gt;" in page.text
    _, other = await signed_in(api, "editor")
    assert (await other.send("/products/new", {**PRODUCT, "csrf": old})).status_code == 403
