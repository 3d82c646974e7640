r"""Regular expressions that express the rules of the domain in JSON Schema.

They match exactly what the rules accept; exceptions are noted. They use only syntax that ECMA 262,
Python and Rust interpret alike, so white space is spelled out: `\s` differs between them. Lengths
that the rest does not bound are bounded by a negative lookahead at the beginning.
"""

_SPACE = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_MARK = rf"[^{_SPACE}\u0000]"

TEXT = r"^[^\u0000]*$"
"""Any text without NUL, which cannot be stored."""

STRONG = (
    r"^(?![^\u0000]{129})(?=[^\u0000]*[A-Z\xc0-\xd6\xd8-\xde])"
    r"(?=[^\u0000]*[a-z\xaa\xb5\xba\xdf-\xf6\xf8-\xff])"
    r"(?=[^\u0000]*[0-9])[^\u0000]{8,}$"
)
"""Passwords in Unicode NFC, with letters of the Latin-1 range; the rule accepts those of every
script, and measures any text in NFC."""

LANGUAGE = (
    r"^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*(?:-[0-9A-WYZa-wyz](?:-[A-Za-z0-9]{2,8})+)*"
    r"(?:-[Xx](?:-[A-Za-z0-9]{1,8})+)?$"
)

_LOCAL_PART = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-](?:\.?[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]){0,63}"
_LABEL = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,62}"

EMAIL = (
    rf"^(?![^@]{{65}})(?!.{{255}})(?!.*@(?:.*\.)?[^.]{{64}}){_LOCAL_PART}@(?:{_LABEL}\.)+"
    r"(?!(?:[Aa][Rr][Pp][Aa]|[Ii][Nn][Vv][Aa][Ll][Ii][Dd]|[Oo][Nn][Ii][Oo][Nn]"
    r"|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt])$)[A-Za-z]{2,63}$"
)
"""E-mails in ASCII, at most 254 characters; the rule also accepts those of RFC 6531."""

_REST = r"[A-Za-z0-9._~:/@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}"
_TAIL = rf"(?:\?|{_REST})*"
_PORT = (
    r"(?!0+(?:[/?#]|$))(?:[0-9]{1,4}|[0-5][0-9]{4}"
    r"|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5]))))"
)

WEB_URL = (
    r"^(?!.{2049})[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?"
    rf"(?::{_PORT})?"
    rf"(?:/(?:{_REST})*)?(?:\?{_TAIL})?(?:#{_TAIL})?$"
)
"""At most 2048 characters, with a name or IPv4 address as host; the rule also accepts IPv6."""


def trimmed(low: int, high: int) -> str:
    """Text with `low` (1 or 2) to `high` characters, without the white space around it."""
    rest = rf"[^\u0000]{{0,{high - 2}}}{_MARK}"
    core = rest if low > 1 else f"(?:{rest})?"
    return f"^[{_SPACE}]*{_MARK}{core}[{_SPACE}]*$"
