"""base64url without padding (RFC 4648 §5, RFC 7515 §2)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def base64url(data: bytes) -> str:
    """The data as text that is safe in a URL."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def from_base64url(text: str) -> bytes:
    """The data that `base64url` encoded; other characters are skipped. Raises ValueError."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
