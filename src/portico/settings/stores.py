"""Where data is stored."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from portico.domain.errors import BrokenRule
from portico.settings.declaring import Group, SettingError, Sources, content, declared, named
from portico.settings.values import key_prefix, secret_keys, store_url, switch


@dataclass(frozen=True, kw_only=True, repr=False)
class Stores(Group):
    """The data directory, and the stores that can be used instead."""

    title = "Storage"

    data: Annotated[
        Path, declared("./portico-data", Path, "directory of databases, keys and certificates")
    ]
    kinds: Annotated[
        Path | None,
        declared(
            None,
            Path,
            "directory of files that declare kinds of resources; unset: `kinds` beside"
            " portico.toml or in the working directory, where there is one",
        ),
    ]
    secret_key_file: Annotated[
        Path | None,
        declared(
            None,
            Path,
            "file with the installation's secret, the same on all hosts, followed by former ones;"
            " unset: `secret.key` in `data`",
        ),
    ]
    secret_key: Annotated[
        tuple[str, ...] | None,
        declared(
            None,
            secret_keys,
            "the secret itself, 64 hexadecimal digits; after a comma a former one",
            secret=True,
        ),
    ]
    database_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "`postgresql://user:password@host/database`; with standbys"
            " `@h1:5432,h2:5432/database`; unset: SQLite in `data`",
            secret=True,
        ),
    ]
    database_listen_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "PostgreSQL itself, if `database_url` is a pooler",
            secret=True,
        ),
    ]
    database_read_url: Annotated[
        str | None,
        declared(
            None,
            store_url("postgresql", "postgres"),
            "standbys of `database_url`, each by its own address: `@h2:5432,h3:5432/database`;"
            " they serve lists, searches, exports and the audit log, at most a second old",
            secret=True,
        ),
    ]
    prepared_statements: Annotated[
        bool,
        declared(
            "on",
            switch,
            "`off` for PgBouncer before 1.21",
            kind=bool,
        ),
    ]
    valkey_url: Annotated[
        str | None,
        declared(
            None,
            store_url("valkey", "valkeys", "redis", "rediss", kinds=("+sentinel", "+cluster")),
            "`valkey://` or `redis://`, over TLS `valkeys://` or `rediss://`;"
            " `valkey+sentinel://h1:26379,h2:26379/NAME`, `valkey+cluster://h1:6379,h2:6379`;"
            " unset: request counts are kept in memory",
            secret=True,
        ),
    ]
    key_prefix: Annotated[
        str,
        declared(
            "portico",
            key_prefix,
            "beginning of every key in Valkey or Redis; installations that share one need"
            " different prefixes",
        ),
    ]

    def check(self, sources: Sources) -> None:
        """Checks that the data directory can be one, that PostgreSQL's further URLs come with
        `database_url`, and that there is one source of the secret, which can be read."""
        for path in map(str, (self.data, *self.data.parents)):
            # pathlib's functions raise if a name is too long or permission is missing.
            if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112 - as above
                raise SettingError(
                    f"{named('data', sources)} must be a directory: {path!r} is not one"
                )
        for setting in ("database_read_url", "database_listen_url"):
            if getattr(self, setting) is not None and self.database_url is None:
                raise SettingError(
                    f"{named(setting, sources)} needs database_url, which is not set: set"
                    " database_url (PORTICO_DATABASE_URL)"
                )
        file = self.secret_key_file
        if file is None:
            return
        name = named("secret_key_file", sources)
        if self.secret_key is not None:
            raise SettingError(
                f"{name} and {named('secret_key', sources)} both give the secret: remove one"
            )
        held = content("secret_key_file", file, sources)
        try:
            secret_keys(held.strip().decode("ascii", "replace"))
        except BrokenRule as rule:
            raise SettingError(f"{name}: the content of {str(file)!r} {rule}") from None
