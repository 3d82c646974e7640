"""Declares `portico sessions`."""

from portico.cli.arguments import Commands, add_sandbox, by_function, text

_LIST = """\
A session belongs to a browser (a cookie), a login to a program that signed in with a password (an
access token and a refresh token)."""

_REVOKE = """\
It ends immediately. This cannot be undone. With --all, the account is signed out everywhere:
sessions and logins end, and OAuth clients lose access. API keys keep working."""


def add_to(commands: Commands) -> None:
    """Declares `portico sessions …`."""
    sessions = commands.noun("sessions", "list and end sessions and logins")
    listing = sessions.verb(
        "list", "portico.cli.sessions:run_list", "list who is signed in, newest first", _LIST
    )
    listing.add_argument("--owner", metavar="EMAIL", type=text, help="only this user's")
    add_sandbox(listing)
    revoke = sessions.verb(
        "revoke", "portico.cli.sessions:run_revoke", "end a session or a login", _REVOKE
    )
    revoke.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        type=by_function("portico.cli.values:session_id"),
        help="session-N or login-N from portico sessions list",
    )
    revoke.add_argument("--all", action="store_true", help="end all sessions and logins of --owner")
    revoke.add_argument(
        "--owner", metavar="EMAIL", type=text, help="user whose access ends, with --all"
    )
    add_sandbox(revoke)
