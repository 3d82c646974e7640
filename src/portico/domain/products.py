"""A product, and the rules that each of its values obeys. The rules raise `BrokenRule`."""

import msgspec

from portico.domain.errors import BrokenRule
from portico.domain.text import measured, trimmed, web_url

STATUSES = ("active", "archived", "draft")

NAME_LENGTH = (1, 200)
CATEGORY_LENGTH = (1, 100)
MAX_DESCRIPTION_LENGTH = 10_000
MAX_STOCK_QUANTITY = 2**31 - 1
MAX_IMAGES = 50
MAX_ALT_LENGTH = 500
MAX_METADATA_KEYS = 50
METADATA_KEY_LENGTH = (1, 100)
MAX_METADATA_VALUE_LENGTH = 1_000

_NEXT_STATUSES = {
    "draft": ("active", "archived"),
    "active": ("archived",),
    "archived": ("active",),
}


class Image(msgspec.Struct, frozen=True):
    """A picture of a product, and the words that stand for it."""

    url: str
    alt: str = ""


class Product(msgspec.Struct, frozen=True):
    """An entry of the catalog.

    `price` is in units (1/10000 of `currency`), times are epoch milliseconds, `images` (a list of
    `Image`) and `metadata` (text to text) are JSON text, which most reads hand on unopened, and
    lists leave out.
    """

    id: int
    name: str
    description: str
    category: str
    price: int
    currency: str
    stock_quantity: int
    status: str
    created_at: int
    updated_at: int
    images: str = "[]"
    metadata: str = "{}"


def name(text: str) -> str:
    """Trim a name of 1 to 200 characters."""
    return trimmed(text, *NAME_LENGTH)


def category(text: str) -> str:
    """Trim a category of 1 to 100 characters."""
    return trimmed(text, *CATEGORY_LENGTH)


def description(text: str) -> str:
    """Accept a description of at most 10,000 characters, as it is."""
    return measured(text, 0, MAX_DESCRIPTION_LENGTH)


def stock_quantity(value: int) -> int:
    """Accept a quantity from 0 to 2^31-1."""
    if not 0 <= value <= MAX_STOCK_QUANTITY:
        raise BrokenRule(f"must be from 0 to {MAX_STOCK_QUANTITY}")
    return value


def status(text: str) -> str:
    """Accept a status that exists."""
    if text not in STATUSES:
        raise BrokenRule(f"must be one of {', '.join(STATUSES)}")
    return text


def change_status(old: str, new: str) -> str:
    """Give the status after a change from `old` to `new`; to itself changes nothing."""
    if new != old and new not in _NEXT_STATUSES[old]:
        raise BrokenRule(f"cannot change from {old} to {new}")
    return new


def image_count(count: int) -> int:
    """Accept as many images as one product may have."""
    if count > MAX_IMAGES:
        raise BrokenRule(f"must hold at most {MAX_IMAGES} images")
    return count


def image_url(text: str) -> str:
    """Accept the address of a picture."""
    return web_url(text)


def image_alt(text: str) -> str:
    """Accept at most 500 characters that stand for a picture."""
    return measured(text, 0, MAX_ALT_LENGTH)


def metadata_count(count: int) -> int:
    """Accept as many metadata keys as one product may have."""
    if count > MAX_METADATA_KEYS:
        raise BrokenRule(f"must hold at most {MAX_METADATA_KEYS} keys")
    return count


def metadata_key(text: str) -> str:
    """Accept a metadata key of 1 to 100 characters."""
    return measured(text, *METADATA_KEY_LENGTH)


def metadata_value(text: str) -> str:
    """Accept a metadata value of at most 1,000 characters."""
    return measured(text, 0, MAX_METADATA_VALUE_LENGTH)
