"""URLs of stores, which may name several hosts with commas between them."""

import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit


class StoreUrl(NamedTuple):
    """What a URL holds, as it is written there."""

    rest: SplitResult
    """All but the next two, in whose place is nothing."""
    user: str
    """A user, perhaps with a password, and the `@` behind them; or nothing."""
    hosts: list[str]
    """Each perhaps with a port; one that is empty where none is named."""

    def naming(self, host: str) -> str:
        """The URL with one host alone."""
        return self.rest._replace(netloc=f"{self.user}{host}").geturl()


def read_store_url(url: str) -> StoreUrl:
    """Takes a URL apart; raises ValueError as `urlsplit` does, which knows one host alone: its
    newer releases take no `[::1]` beside another."""
    scheme, slashes, rest = url.partition("//")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, hosts = netloc.rpartition("@")
    rest = rest.removeprefix(netloc)
    return StoreUrl(urlsplit(f"{scheme}{slashes}{rest}"), f"{user}{at}", hosts.split(","))
