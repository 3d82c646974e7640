"""Trying out an operation of the reference: a page that sends one request to the sandbox.

It never reaches live: the form names an operation and its parameters, while the address and the
credential are the sandbox's own and mean nothing in live
(docs/decisions/0027-trying-by-a-lent-session.md).
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from portico.domain.errors import AuthenticationRequired, BrokenRule, NotFound
from portico.domain.ids import parse_id
from portico.http.internal_client import InternalClient
from portico.http.messages import JSON, Reply
from portico.http.routing import Access
from portico.pages.forms import Form
from portico.pages.reference import Operation
from portico.pages.site import Accounts, PageRoute, Visit, addressed, check_token
from portico.pages.step_up import question
from portico.services.mirrors import lent_session

PATH = "/try"

_TELLING = (
    "content-type",
    "location",
    "etag",
    "retry-after",
    "idempotent-replayed",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
)
"""The response headers that the page shows."""

_MOST = 64 * 1024
"""The most characters of a response body to show."""

_HEADER = re.compile(r"[ -~]{1,1000}")


class Reader(NamedTuple):
    """The signed-in user, and the session's cookie if the sandbox itself knows it."""

    name: str
    role: str
    cookie: str | None


class Filled(NamedTuple):
    """An operation with the values from the form."""

    method: str
    address: str
    headers: dict[str, str]
    body: bytes


class Answered(NamedTuple):
    """The response. `message` is an error's message; `left` is the number of characters at the end
    of the body that are not shown."""

    method: str
    address: str
    status: int
    phrase: str
    message: str
    headers: list[tuple[str, str]]
    body: str
    left: int


class Trying:
    """The page that tries out operations of the sandbox's API."""

    def __init__(
        self,
        accounts: Accounts,
        operations: Callable[[], Mapping[str, Operation]],
        inside: InternalClient,
    ) -> None:
        """`accounts` are the sandbox's own, `operations` its API's by their ids. `inside` sends the
        requests."""
        self._accounts = accounts
        self._make_operations = operations
        self._inside = inside

    @property
    def pages(self) -> tuple[PageRoute, ...]:
        """The page and its form, open to anyone: visitors without a session are told to sign in."""
        return (
            PageRoute("GET", PATH, self.show, Access.ANYONE),
            PageRoute("POST", PATH, self.send, Access.ANYONE),
        )

    async def show(self, visit: Visit) -> Reply:
        """GET /try, and the form again if it is faulty."""
        reader = await self._reader(visit)
        if reader is None and visit.cookie_kept_back:
            raise AuthenticationRequired("You are not signed in.")
        return self._page(visit, reader)

    async def send(self, visit: Visit) -> Reply:
        """POST /try."""
        reader = await self._reader(visit)
        if reader is None:
            return self._page(visit, None, status=403)
        check_token(visit.form, self._accounts.cookie.read(visit.request.headers))
        operation = self._operation(visit)
        filled = _filled(operation, visit.form, visit.env.addresses.base)
        if visit.signed_in and _decides_on_access(operation):
            asked = await question(visit)
            if asked is not None:
                return asked
        async with self._session(visit, reader) as cookie:
            reply = await self._inside.ask(
                filled.method,
                filled.address,
                headers={**filled.headers, "cookie": f"{self._accounts.cookie.name}={cookie}"},
                body=filled.body,
                origin=visit.request.origin,
            )
        return self._page(visit, reader, answered=_answered(filled, reply))

    def _page(
        self,
        visit: Visit,
        reader: Reader | None,
        *,
        status: int = 200,
        answered: Answered | None = None,
    ) -> Reply:
        operation = self._operation(visit)
        return visit.page(
            "try.html",
            operation.summary,
            status=status,
            operation=operation,
            reader=reader,
            answered=answered,
        )

    @cached_property
    def _operations(self) -> Mapping[str, Operation]:
        return self._make_operations()

    def _operation(self, visit: Visit) -> Operation:
        found = self._operations.get(visit.sent("operation"))
        if found is None or not found.tryable:
            raise NotFound("This operation cannot be tried here. Choose another in the reference.")
        return found

    async def _reader(self, visit: Visit) -> Reader | None:
        """The user who is signed in to the dashboard or to the sandbox itself."""
        if visit.signed_in:
            return Reader(visit.user.name, visit.user.role, None)
        cookie = self._accounts.cookie.read(visit.request.headers)
        if cookie is None:
            return None
        try:
            found = await self._accounts.credentials.look_up_session(cookie, visit.request.now)
        except AuthenticationRequired:
            return None
        return Reader(found.name, found.role, cookie)

    @asynccontextmanager
    async def _session(self, visit: Visit, reader: Reader) -> AsyncIterator[str]:
        """The cookie of a session of the sandbox."""
        if reader.cookie is not None:
            yield reader.cookie
            return
        accounts = visit.site.accounts.environment
        async with lent_session(accounts, visit.user, visit.request.by) as secret:
            yield secret


def _decides_on_access(operation: Operation) -> bool:
    """Whether the operation may do what the dashboard's forms do only after a step-up."""
    return operation.method != "GET" and operation.tag != "products"


def _filled(operation: Operation, form: Form, base: str) -> Filled:
    """The request that the form describes. Raises `Invalid` with every fault."""
    path = operation.path
    for field in operation.parameters.get("path", ()):
        number = form.read(f"path.{field.name}", _id)
        path = path.replace(f"{{{field.name}}}", str(number))
    query = {
        field.name: text
        for field in operation.parameters.get("query", ())
        if (text := form.text(f"query.{field.name}"))
    }
    headers = {
        field.name.lower(): value
        for field in operation.parameters.get("header", ())
        if (value := form.optional(f"header.{field.name}", _header))
    }
    form.check()
    body = b""
    if operation.body:
        headers["content-type"] = JSON
        body = form.text("body").encode()
    return Filled(operation.method, addressed(f"{base}{path}", query), headers, body)


def _id(text: str) -> int:
    try:
        return parse_id(text.strip())
    except NotFound:
        raise BrokenRule("must be an id, such as 17") from None


def _header(text: str) -> str:
    if not _HEADER.fullmatch(text):
        raise BrokenRule("must be visible ASCII characters")
    return text


def _answered(filled: Filled, reply: Reply) -> Answered:
    told = dict(reply.headers)
    message, body = "", reply.body
    if body:  # responses of the API are JSON
        body = msgspec.json.format(body, indent=2)
        if reply.status >= 400:
            message = msgspec.json.decode(body)["error"]["message"]
    text = body.decode()
    return Answered(
        filled.method,
        filled.address,
        reply.status,
        HTTPStatus(reply.status).phrase,
        message,
        [(name, told[name]) for name in _TELLING if name in told],
        text[:_MOST],
        len(text[_MOST:]),
    )
