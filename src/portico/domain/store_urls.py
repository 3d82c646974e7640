"""URLs of stores, which may have several hosts, comma-separated."""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit


class StoreUrl(NamedTuple):
    """The parts of a URL, as they are written there."""

    rest: SplitResult
    """The URL without user and hosts."""
    user: str
    """The user, with the password if there is one, and the `@` after them; may be empty."""
    hosts: list[str]
    """Each with a port if there is one; a single empty text if the URL has no host."""

    def naming(self, host: str) -> str:
        """The URL with only this host."""
        return self.rest._replace(netloc=f"{self.user}{host}").geturl()


def read_store_url(url: str) -> StoreUrl:
    """Splits a URL. Raises ValueError as `urlsplit` does, which only supports one host: newer
    releases reject `[::1]` beside another."""
    scheme, slashes, rest = url.partition("//")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, hosts = netloc.rpartition("@")
    rest = rest.removeprefix(netloc)
    return StoreUrl(urlsplit(f"{scheme}{slashes}{rest}"), f"{user}{at}", hosts.split(","))
