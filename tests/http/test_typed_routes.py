"""A route and its handler agree on what is read. That is for mypy to find: by `warn_unused_ignores`
each line here that ignores an error fails the type check once there is none.
"""

import msgspec

from portico.web.messages import BodyRequest, QueryRequest, Reply
from portico.web.routing import Access, BodyRoute, FormRoute, QueryRoute, Route

M, P, A, S = "POST", "/x", Access.ANYONE, "X"


class Lamp(msgspec.Struct):
    """What the handlers below read."""


class Chair(msgspec.Struct):
    """What none of them reads."""


async def query(_request: QueryRequest[Lamp]) -> Reply:
    return Reply(204)


async def body(_request: BodyRequest[Lamp]) -> Reply:
    return Reply(204)


def test_route_and_handler_that_agree_are_no_error() -> None:
    QueryRoute(method=M, path=P, access=A, summary=S, handler=query, query=Lamp)
    BodyRoute(method=M, path=P, access=A, summary=S, handler=body, body=Lamp)
    FormRoute(method=M, path=P, access=A, summary=S, handler=body, form=Lamp)


# Each ignored error is what the test is about.
def test_route_and_handler_that_disagree_are_a_type_error() -> None:
    Route(method=M, path=P, access=A, summary=S, handler=query)  # type: ignore[arg-type]
    QueryRoute(method=M, path=P, access=A, summary=S, handler=query, query=Chair)  # type: ignore[arg-type]
    QueryRoute(method=M, path=P, access=A, summary=S, handler=body, query=Lamp)  # type: ignore[arg-type]
    BodyRoute(method=M, path=P, access=A, summary=S, handler=body, body=Chair)  # type: ignore[arg-type]
    BodyRoute(method=M, path=P, access=A, summary=S, handler=query, body=Lamp)  # type: ignore[arg-type]
    FormRoute(method=M, path=P, access=A, summary=S, handler=body, form=Chair)  # type: ignore[arg-type]
