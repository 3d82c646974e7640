"""The words that a value may be, where they are few.

The command line offers them as choices, so this module imports nothing that takes time to load.
"""

from typing import Literal, get_args

ROLES = ("admin", "editor", "viewer")

KeyType = Literal["live", "test", "read"]
KEY_TYPES: tuple[KeyType, ...] = get_args(KeyType)

Format = Literal["csv", "ndjson"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""The forms of a file of products."""
