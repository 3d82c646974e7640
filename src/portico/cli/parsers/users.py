"""What can be typed behind `portico users`."""

from portico.cli.arguments import Commands, take_sandbox
from portico.domain.words import ROLES


def add_to(commands: Commands) -> None:
    """Declares `portico users …`."""
    users = commands.noun("users", "create users, and change their plans")
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
