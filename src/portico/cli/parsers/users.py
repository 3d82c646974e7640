"""What can be typed behind `portico users`."""

from portico.cli.arguments import Commands, take_sandbox
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
    users = commands.noun("users", "create users, change their plans, suspend and resume them")
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
    plan = users.verb(
        "set-plan",
        "portico.cli.users:run_set_plan",
        "move an account to another plan",
        "It holds from the account's next request on; what it has used stays counted. Its mirror in"
        "\nthe sandbox follows.",
    )
    plan.add_argument("email", metavar="EMAIL", help="the account's e-mail")
    plan.add_argument(
        "plan", metavar="PLAN", help="free, pro, enterprise, or one from the settings"
    )
    take_sandbox(plan)
    for verb, summary, details in (
        ("suspend", "suspend an account", _SUSPEND),
        ("resume", "end the suspension of an account", _RESUME),
        ("reset-second-factor", "remove an account's second factors", _RESET),
    ):
        change = users.verb(
            verb, f"portico.cli.users:run_{verb.replace('-', '_')}", summary, details
        )
        change.add_argument("email", metavar="EMAIL", help="the account's e-mail")
        take_sandbox(change)
