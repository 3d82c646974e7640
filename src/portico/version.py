"""Which release this is."""

from functools import cache
from importlib import metadata


@cache  # to look it up reads files
def version() -> str:
    """The version of the package that is installed, such as `1.2.0`."""
    return metadata.version("portico")
