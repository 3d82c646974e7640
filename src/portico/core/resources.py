"""The kinds of resources that the API has.

The scopes and those of each role, the texts of the consent page, the sections of the reference and
the samples of a sandbox reset are derived from this list. Kinds of the
installation are added to it at the start (`scopes.Permissions`).
"""

import msgspec


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of resource.

    `path` is the first segment of its paths; `title` and `about` head its section of the reference.
    A kind with scopes of its own has a `plural`, which the scopes are named after, describes what
    each scope permits (`see`, `change`), and lists the roles that have it (`readers`, `writers`;
    admins have all). `samples` says whether a sandbox reset creates samples of it.
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


RESOURCES = [
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
        about="The credentials of programs. Users create their own, admins also those of others.",
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
    Resource(
        path="invitations",
        title="Invitations",
        about="Who may make themselves an account, with which role and plan.",
    ),
    Resource(
        path="clients",
        title="OAuth clients",
        about="Applications with which users sign in, and to which they grant access.",
    ),
    Resource(
        path="audit",
        title="Audit log",
        about="Who did what, when and from where.",
    ),
    Resource(
        path="usage",
        title="Usage",
        about="How many requests accounts made.",
    ),
    Resource(
        path="plans",
        title="Plans",
        about="How many requests accounts may make.",
    ),
    Resource(
        path="verify",
        title="Services",
        about="What services of your own ask: whose credential they were sent, and what it may do.",
    ),
]

SCOPED = [kind for kind in RESOURCES if kind.plural]
"""The kinds with scopes of their own."""
