"""The public addresses of an environment."""

from pathlib import Path
from shlex import quote

import msgspec

AUTHORITY_COPY = Path("ca.pem")
"""The local authority's certificate as readers elsewhere have it, once its operator has given it to
them."""


class Addresses(msgspec.Struct, frozen=True):
    """The public addresses of one environment."""

    base: str
    auth: str
    dashboard: str
    cookie_domain: str | None = None
    """The domain whose hosts share the session cookie; None: only this host has it."""
    authority: Path | None = None
    """The file of the local authority's certificate, if clients must trust that."""

    def read(self, *, here: bool) -> "Addresses":
        """As somebody on this machine reads them, or somebody elsewhere, to whom its paths mean
        nothing and are none of their business."""
        if here or self.authority is None:
            return self
        return msgspec.structs.replace(self, authority=AUTHORITY_COPY)

    @property
    def needs_copy(self) -> bool:
        """Whether the reader must get a copy of the local authority's certificate first."""
        return self.authority == AUTHORITY_COPY

    @property
    def curl(self) -> str:
        """The command that calls curl."""
        return f"curl --cacert {quote(str(self.authority))}" if self.authority else "curl"
