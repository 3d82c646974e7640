"""Declares `portico backup` and `portico restore`."""

from portico.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Declares `portico backup` and `portico restore`."""
    backing = commands.verb(
        "backup",
        "portico.cli.backup:run_backup",
        "back up both databases, keys and certificates to one file",
        "Can run beside a server, which keeps accepting changes.",
    )
    backing.add_argument(
        "file", metavar="FILE", help="the file to create; compressed if its name ends in .gz"
    )
    restoring = commands.verb(
        "restore",
        "portico.cli.backup:run_restore",
        "restore a backup to a new data directory",
        "To restore a PostgreSQL backup, or move one of SQLite there, set PORTICO_DATABASE_URL to"
        "\na database without Portico. Settings are not part of a backup.",
    )
    restoring.add_argument("file", metavar="FILE", help="the file that portico backup created")
