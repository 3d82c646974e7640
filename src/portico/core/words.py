"""The values of fields that have only a few.

The command line offers them as choices, so this module imports nothing that is slow to load.
"""

from typing import Literal, get_args

ROLES = ("admin", "editor", "viewer")

KeyType = Literal["live", "test", "read"]
KEY_TYPES: tuple[KeyType, ...] = get_args(KeyType)

Format = Literal["csv", "ndjson"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""The formats of a file of products."""
