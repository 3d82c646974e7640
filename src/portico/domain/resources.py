"""The kinds of resources that the API has: the one list that others read.

Scopes and what roles have, the words of consent, the sections of the reference and what a reset of
the sandbox fills follow from it.
"""

import msgspec


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of resource.

    `path` stands first in its paths; `title` and `about` head its section of the reference. One
    whose reading or writing is granted by scope has a `plural`, which those scopes name, says what
    each lets its bearer do (`see`, `change`), and which roles do so (`readers`, `writers`; admins
    do everything). `samples` tells whether a reset of the sandbox fills it.
    """

    path: str
    title: str
    about: str
    plural: str = ""
    see: str = ""
    change: str = ""
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    samples: bool = False


RESOURCES = (
    Resource(
        path="users",
        title="Users",
        about="The people who have an account, and what they may do.",
        plural="users",
        see="See all users",
        change="Create, change and delete users",
        readers=("viewer", "editor"),
        samples=True,
    ),
    Resource(
        path="products",
        title="Products",
        about="The catalog: what is drafted, sold and archived.",
        plural="products",
        see="See products",
        change="Create, change and delete products",
        readers=("viewer", "editor"),
        writers=("editor",),
        samples=True,
    ),
    Resource(
        path="api-keys",
        title="API keys",
        about="The credentials of programs. Everyone makes their own, an admin others' too.",
    ),
    Resource(
        path="sessions",
        title="Sessions",
        about="Signing in with a cookie, for browsers.",
    ),
    Resource(
        path="events",
        title="Events",
        about="Everything that has happened, in order.",
    ),
    Resource(
        path="webhooks",
        title="Webhooks",
        about="Where events are sent as they happen.",
    ),
)

SCOPED = tuple(kind for kind in RESOURCES if kind.plural)
"""The kinds that scopes open."""
