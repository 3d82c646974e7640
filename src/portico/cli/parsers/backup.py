"""What can be typed behind `portico backup` and `portico restore`."""

from portico.cli.arguments import Commands


def add_to(commands: Commands) -> None:
    """Declares `portico backup` and `portico restore`."""
    backing = commands.verb(
        "backup",
        "portico.cli.backup:run_backup",
        "copy both databases, keys and certificates into one file",
        "It may run beside a server, whose writes go on meanwhile.",
    )
    backing.add_argument("file", metavar="FILE", help="a new file; compressed if it ends in .gz")
    restoring = commands.verb(
        "restore",
        "portico.cli.backup:run_restore",
        "put a backup into a new data directory",
        "PORTICO_DATABASE_URL names a PostgreSQL database without Portico, where to put a backup of"
        " one, or to move that of an installation on SQLite. Settings are not in a backup.",
    )
    restoring.add_argument("file", metavar="FILE", help="what portico backup wrote")
