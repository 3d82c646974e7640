"""A route and its handler agree on what is read. That is for mypy to find: by `warn_unused_ignores`
each line here that ignores an error fails the type check once there is none.
"""

import msgspec

from portico.web.messages import BodyRequest, QueryRequest, Reply, Request
from portico.web.routing import Access, BodyOrBearerRoute, BodyRoute, FormRoute, QueryRoute, Route

M, P, A, S = "POST", "/x", Access.ANYONE, "X"


class Lamp(msgspec.Struct):
    """What the handlers below read."""

    watts: int = 1


class Chair(msgspec.Struct):
    """What none of them reads."""

    legs: int = 4


async def neither(_request: Request) -> Reply:
    return Reply(204)


async def query(request: QueryRequest[Lamp]) -> Reply:
    return Reply(request.query.watts)


async def body(request: BodyRequest[Lamp]) -> Reply:
    return Reply(request.body.watts)


async def maybe(request: BodyRequest[Lamp | None]) -> Reply:
    return Reply(request.body.watts if request.body else 204)


def test_what_agrees_is_no_error() -> None:
    Route(method=M, path=P, access=A, summary=S, handler=neither)
    QueryRoute(method=M, path=P, access=A, summary=S, handler=query, query=Lamp)
    BodyRoute(method=M, path=P, access=A, summary=S, handler=body, body=Lamp)
    BodyOrBearerRoute(method=M, path=P, access=A, summary=S, handler=maybe, body=Lamp)
    FormRoute(method=M, path=P, access=A, summary=S, handler=body, form=Lamp)


# Each ignored error is what the test is about.
def test_what_does_not_agree_is_one() -> None:
    Route(method=M, path=P, access=A, summary=S, handler=query)  # type: ignore[arg-type]
    Route(method=M, path=P, access=A, summary=S, handler=body)  # type: ignore[arg-type]
    Route(method=M, path=P, access=A, summary=S, handler=body, body=Lamp)  # type: ignore[arg-type]
    QueryRoute(method=M, path=P, access=A, summary=S, handler=query, query=Chair)  # type: ignore[arg-type]
    QueryRoute(method=M, path=P, access=A, summary=S, handler=body, query=Lamp)  # type: ignore[arg-type]
    BodyRoute(method=M, path=P, access=A, summary=S, handler=body, body=Chair)  # type: ignore[arg-type]
    BodyRoute(method=M, path=P, access=A, summary=S, handler=query, body=Lamp)  # type: ignore[arg-type]
    BodyOrBearerRoute(method=M, path=P, access=A, summary=S, handler=body, body=Lamp)  # type: ignore[arg-type]
    FormRoute(method=M, path=P, access=A, summary=S, handler=body, form=Chair)  # type: ignore[arg-type]
