"""The service's addresses, the credential and trusted certificates: arguments or the environment.

| argument | variable | default |
|---|---|---|
| `api_key` | `PORTICO_API_KEY` | |
| `base_url` | `PORTICO_BASE_URL` | `https://localhost:8443/v1` |
| `auth_url` | `PORTICO_AUTH_URL` | `base_url` with its last segment replaced by `auth` |
| `ca` | `PORTICO_CA` | the authorities that httpx trusts |

If `base_url` is given, `PORTICO_AUTH_URL` is ignored: it belongs to another base.
"""

import os
import ssl
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from portico_client.credentials import Credential

DEFAULT_BASE_URL = "https://localhost:8443/v1"

Authorities = str | os.PathLike[str] | ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the API and its authorization server, without trailing slashes."""

    base: str
    auth: str


def addresses(base_url: str | None, auth_url: str | None) -> Addresses:
    """The addresses to use. Raises ValueError for one that is not https."""
    given = _given(base_url, "PORTICO_BASE_URL")
    base = address(DEFAULT_BASE_URL if given is None else given)
    # A password for this base must not go to the authorization server of another.
    known = _given(auth_url, "PORTICO_AUTH_URL") if base_url is None else auth_url
    return Addresses(base, address(urljoin(f"{base}/", "../auth") if known is None else known))


def authority(auth_url: str | None) -> str:
    """The authorization server's address, without the API's. Raises as `addresses` does."""
    known = _given(auth_url, "PORTICO_AUTH_URL")
    return addresses(None, None).auth if known is None else address(known)


def address(text: str) -> str:
    """An address without a trailing slash. Raises ValueError for one that is not https."""
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname:
        # The service refuses plain HTTP, but by then the credential would have leaked.
        raise ValueError(f"{text!r} is not an https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("an address has no user, query or fragment")
    return text.rstrip("/")


def trusted(ca: Authorities | None) -> ssl.SSLContext | bool:
    """What httpx verifies certificates against. `ca` is a PEM file of authorities, or a context.
    Raises ValueError if the file cannot be read or holds no certificates."""
    if isinstance(ca, ssl.SSLContext):
        return ca
    given = _given(ca, "PORTICO_CA")
    if given is None:
        return True
    if given == "":  # it would load the system's authorities
        raise ValueError("ca is empty")
    try:
        return ssl.create_default_context(cafile=given)
    except OSError as error:  # ssl.SSLError is one
        name = "PORTICO_CA" if ca is None else "ca"
        raise ValueError(f"{name} is not a file of certificates: {given} ({error})") from error


Given = TypeVar("Given", bound=str | os.PathLike[str])


def _given(argument: Given | None, variable: str) -> Given | str | None:
    """The argument, even if it is empty; otherwise the variable, unless that is empty."""
    return os.environ.get(variable) or None if argument is None else argument


def chosen(api_key: str | None, auth: Credential | None) -> str | Credential:
    """The credential to use. Raises ValueError if there are two, or none."""
    if api_key is not None and auth is not None:
        raise ValueError("give api_key or auth, not both")
    if api_key == "":  # not ignored: the key of the environment may be somebody else's
        raise ValueError("api_key is empty")
    found = auth if auth is not None else _given(api_key, "PORTICO_API_KEY")
    if found is None:
        raise ValueError("give api_key or auth, or set PORTICO_API_KEY")
    return found
