"""Where data lies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from portico.settings.declaring import Group, declared
from portico.settings.values import key_prefix, store_url


@dataclass(frozen=True, kw_only=True, repr=False)
class Stores(Group):
    """The data directory, and the stores that may take its place."""

    data: Annotated[
        Path, declared("./portico-data", Path, "directory of databases, keys and certificates")
    ]
    database_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "`postgresql://user:password@host/database`; unset: SQLite in `data`",
            secret=True,
        ),
    ]
    valkey_url: Annotated[
        str | None,
        declared(
            None,
            store_url("valkey", "valkeys", "redis", "rediss"),
            "`valkey://` or `redis://`, over TLS `valkeys://` or `rediss://`; unset: request"
            " counts are kept in memory",
            secret=True,
        ),
    ]
    key_prefix: Annotated[
        str,
        declared(
            "portico",
            key_prefix,
            "what every key in Valkey or Redis begins with; installations that share one differ in"
            " it",
        ),
    ]
