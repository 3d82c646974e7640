"""Where the service is and which certificates are trusted: arguments, else the environment.

| argument | variable | without either |
|---|---|---|
| `api_key` | `PORTICO_API_KEY` | |
| `base_url` | `PORTICO_BASE_URL` | `https://localhost:8443/v1` |
| `auth_url` | `PORTICO_AUTH_URL` | `auth` in the place of the base's last part |
| `ca` | `PORTICO_CA` | the authorities that httpx trusts |

Where `base_url` is given, `PORTICO_AUTH_URL` is not looked at: it is that of another base.
"""

import os
import ssl
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from portico_client.credentials import Credential

DEFAULT_BASE_URL = "https://localhost:8443/v1"

Authorities = str | os.PathLike[str] | ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Addresses:
    """The API's base address and that of its authorization server, without a slash at the end."""

    base: str
    auth: str


def addresses(base_url: str | None, auth_url: str | None) -> Addresses:
    """The addresses to use. Raises ValueError for one that is not https."""
    base = address(base_url or os.environ.get("PORTICO_BASE_URL") or DEFAULT_BASE_URL)
    # A password for this base must not go to the authorization server of another.
    known = auth_url or (None if base_url else os.environ.get("PORTICO_AUTH_URL"))
    return Addresses(base, address(known or urljoin(f"{base}/", "../auth")))


def authority(auth_url: str | None) -> str:
    """The authorization server's address, for who needs no other. Raises as `addresses` does."""
    known = auth_url or os.environ.get("PORTICO_AUTH_URL")
    return address(known) if known else addresses(None, None).auth


def address(text: str) -> str:
    """An address without a slash at the end. Raises ValueError for one that is not https."""
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname:
        # The service refuses plain HTTP, but by then the credential would have leaked.
        raise ValueError(f"{text} is not an https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an address has no user, query or fragment")
    return text.rstrip("/")


def trusted(ca: Authorities | None) -> ssl.SSLContext | bool:
    """What httpx is to verify certificates against: a file of authorities in PEM, or a context."""
    given = ca or os.environ.get("PORTICO_CA")
    if not given:
        return True
    if isinstance(given, ssl.SSLContext):
        return given
    return ssl.create_default_context(cafile=given)


def chosen(api_key: str | None, auth: Credential | None) -> str | Credential:
    """The credential to use. Raises ValueError where there are two, or none."""
    if api_key and auth:
        raise ValueError("give api_key or auth, not both")
    found = api_key or auth or os.environ.get("PORTICO_API_KEY")
    if not found:
        raise ValueError("give api_key or auth, or set PORTICO_API_KEY")
    return found
