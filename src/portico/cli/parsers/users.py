"""What can be typed behind `portico users`."""

from portico.cli.arguments import Commands, ruled, take_sandbox, text
from portico.domain.words import ROLES

_SUSPEND = """\
From its next request on nothing that the account has opens anything. Its sessions, logins and
grants end for good, its API keys wait until it is resumed, and nothing is deleted. Its mirror in
the sandbox follows. The last admin cannot be suspended."""

_RESUME = """\
Its API keys work again from their next request on; people sign in anew. Its mirror in the sandbox
follows."""

_RESET = (
    "For whoever has lost them. Its app and recovery codes open nothing any more, and it is told by"
    "\nmail; where one is required, it sets up another at the next sign-in."
)


def add_to(commands: Commands) -> None:
    """Declares `portico users …`."""
    users = commands.noun("users", "create, invite, list, change, suspend and delete users")
    create = users.verb(
        "create",
        "portico.cli.users:run_create",
        "create a user",
        "A random password is made and printed once, unless --password-stdin gives one.",
    )
    create.add_argument("--email", metavar="E", required=True, help="e-mail, to sign in with")
    create.add_argument("--name", metavar="N", required=True, help="name, 2 to 100 characters")
    create.add_argument(
        "--role", metavar="R", choices=ROLES, default="viewer", help="%(choices)s (default viewer)"
    )
    create.add_argument("--plan", metavar="P", default="free", help="plan (default free)")
    create.add_argument(
        "--password-stdin", action="store_true", help="read the password from standard input"
    )
    take_sandbox(create)
    _add_invite(users)
    listing = users.verb("list", "portico.cli.users:run_list", "list users, oldest first")
    listing.add_argument("--role", metavar="R", choices=ROLES, help="only these: %(choices)s")
    take_sandbox(listing)
    show = users.verb("show", "portico.cli.users:run_show", "show one user")
    show.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    take_sandbox(show)
    plan = users.verb(
        "set-plan",
        "portico.cli.users:run_set_plan",
        "move an account to another plan",
        "It holds from the account's next request on; what it has used stays counted. Its mirror in"
        "\nthe sandbox follows.",
    )
    plan.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    plan.add_argument(
        "plan", metavar="PLAN", help="free, pro, enterprise, or one from the settings"
    )
    take_sandbox(plan)
    role = users.verb(
        "set-role",
        "portico.cli.users:run_set_role",
        "give an account another role",
        "It holds from the account's next request on. Its mirror in the sandbox follows. The last"
        "\nadmin stays one.",
    )
    role.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    role.add_argument("role", metavar="ROLE", choices=ROLES, help="%(choices)s")
    take_sandbox(role)
    _add_access(users)


def _add_invite(users: Commands) -> None:
    """How others get an account."""
    invite = users.verb(
        "invite",
        "portico.cli.users:run_invite",
        "invite somebody, who chooses their own password",
        "Prints the link, for you to hand over; where there is a mail server, it goes by mail too."
        "\nIt holds for seven days and works once, instead of the one before it.",
    )
    invite.add_argument(
        "email", metavar="EMAIL", type=ruled("portico.domain.users:email"), help="whom"
    )
    invite.add_argument(
        "--name",
        metavar="N",
        type=ruled("portico.domain.users:name"),
        help="name; they can choose another",
    )
    invite.add_argument(
        "--role", metavar="R", choices=ROLES, default="viewer", help="%(choices)s (default viewer)"
    )
    invite.add_argument("--plan", metavar="P", default="free", help="plan (default free)")


def _add_access(users: Commands) -> None:
    """What opens and shuts an account."""
    for verb, summary, details in (
        ("suspend", "suspend an account", _SUSPEND),
        ("resume", "end the suspension of an account", _RESUME),
        ("reset-second-factor", "remove an account's second factors", _RESET),
    ):
        change = users.verb(
            verb, f"portico.cli.users:run_{verb.replace('-', '_')}", summary, details
        )
        change.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
        take_sandbox(change)
    reset = users.verb(
        "reset-password",
        "portico.cli.users:run_reset_password",
        "print a link with which a user chooses a new password",
        "Hand it over by a way that you trust: it holds for 24 hours and works once. Until then the"
        "\nold password does too.",
    )
    reset.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    delete = users.verb(
        "delete",
        "portico.cli.users:run_delete",
        "delete an account for good",
        "It goes with its keys, sessions, grants and mirror. The last admin cannot be deleted.",
    )
    delete.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    delete.add_argument("--yes", action="store_true", help="needed, as it cannot be undone")
    take_sandbox(delete)
