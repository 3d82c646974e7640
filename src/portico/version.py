"""The release of Portico."""

from functools import cache
from importlib import metadata


@cache  # a look-up reads files
def version() -> str:
    """The version of the installed package, such as `1.2.0`."""
    return metadata.version("portico")
