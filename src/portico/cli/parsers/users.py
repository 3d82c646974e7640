"""Declares `portico users`."""

from portico.cli.arguments import Commands, add_sandbox, by_rule, text
from portico.domain.words import ROLES

_SUSPEND = """\
The account loses all access immediately: its sessions, logins and grants end for good, and its API
keys stop working until it is resumed. Nothing of it is deleted. The same applies to its mirror in
the sandbox. Of an admin, invitations and reset links that nobody has used end too, and the keys are
named that they created for others: these still work. The last admin cannot be suspended."""

_RESUME = """\
The user can sign in again, and their API keys work again immediately. The same applies to the
account's mirror in the sandbox."""

_RESET = (
    "For users who lost them. Their app, passkeys and recovery codes stop working, and they are"
    "\nnotified by e-mail. Where a second factor is required, they set one up at the next sign-in."
)


def add_to(commands: Commands) -> None:
    """Declares `portico users …`."""
    users = commands.noun("users", "create, invite, list, change, suspend and delete users")
    create = users.verb(
        "create",
        "portico.cli.users:run_create",
        "create a user",
        "A random password is created and printed once, unless --password-stdin gives one.",
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
    add_sandbox(create)
    _add_invite(users)
    listing = users.verb("list", "portico.cli.users:run_list", "list users, oldest first")
    listing.add_argument("--role", metavar="R", choices=ROLES, help="only this role: %(choices)s")
    add_sandbox(listing)
    show = users.verb("show", "portico.cli.users:run_show", "show one user")
    show.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    add_sandbox(show)
    plan = users.verb(
        "set-plan",
        "portico.cli.users:run_set_plan",
        "move an account to another plan",
        "It takes effect immediately; used requests stay counted. The same applies to the account's"
        "\nmirror in the sandbox.",
    )
    plan.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    plan.add_argument(
        "plan", metavar="PLAN", help="free, pro, enterprise, or one from the settings"
    )
    add_sandbox(plan)
    role = users.verb(
        "set-role",
        "portico.cli.users:run_set_role",
        "give an account another role",
        "It takes effect immediately, in the sandbox too. The last admin cannot get another role.",
    )
    role.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    role.add_argument("role", metavar="ROLE", choices=ROLES, help="%(choices)s")
    add_sandbox(role)
    _add_access(users)


def _add_invite(users: Commands) -> None:
    """Declares `portico users invite`."""
    invite = users.verb(
        "invite",
        "portico.cli.users:run_invite",
        "invite someone, who chooses their own password",
        "Prints a link for you to pass on. With a mail server, it is also sent by e-mail. It works"
        "\nonce, within seven days, and replaces an earlier link to the same address.",
    )
    invite.add_argument(
        "email",
        metavar="EMAIL",
        type=by_rule("portico.domain.users:email"),
        help="e-mail to invite",
    )
    invite.add_argument(
        "--name",
        metavar="N",
        type=by_rule("portico.domain.users:name"),
        help="name, which they can change",
    )
    invite.add_argument(
        "--role", metavar="R", choices=ROLES, default="viewer", help="%(choices)s (default viewer)"
    )
    invite.add_argument("--plan", metavar="P", default="free", help="plan (default free)")


def _add_access(users: Commands) -> None:
    """Declares the commands that remove or restore access to an account."""
    for verb, summary, details in (
        ("suspend", "suspend an account", _SUSPEND),
        ("resume", "end the suspension of an account", _RESUME),
        ("reset-second-factor", "remove an account's second factors", _RESET),
    ):
        change = users.verb(
            verb, f"portico.cli.users:run_{verb.replace('-', '_')}", summary, details
        )
        change.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
        add_sandbox(change)
    reset = users.verb(
        "reset-password",
        "portico.cli.users:run_reset_password",
        "print a link for a user to choose a new password",
        "Pass it on so that only the user can read it. It works once, within 24 hours. Until it is"
        "\nused, the old password keeps working.",
    )
    reset.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    delete = users.verb(
        "delete",
        "portico.cli.users:run_delete",
        "delete an account for good",
        "Its keys, sessions, grants and mirror are deleted too. Of an admin, invitations and reset"
        "\nlinks that nobody has used end, and the keys are named that they created for others:"
        "\nthese still work. The last admin cannot be deleted.",
    )
    delete.add_argument("email", metavar="EMAIL", type=text, help="the account's e-mail")
    delete.add_argument("--yes", action="store_true", help="required, because it cannot be undone")
    add_sandbox(delete)
