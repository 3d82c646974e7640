r"""Regular expressions that express the rules of the domain in JSON Schema.

They match whatever the rules accept, and nothing else but where it is noted. They use only syntax
that ECMA 262, Python and Rust interpret alike, so white space is spelled out: `\s` differs between
them. Lengths that the rest does not bound are bounded by a negative lookahead at the beginning.
"""

_SPACE = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_MARK = rf"[^{_SPACE}\u0000]"

TEXT = r"^[^\u0000]*$"
"""Any text without NUL, which cannot be stored."""

_ASCII = r"[\u0001-\u007f]"
ASCII = rf"^{_ASCII}+$"

_BEYOND = r"[^\u0000-\u007f]"

PASSWORD_BEYOND_ASCII = rf"(?={_ASCII}*{_BEYOND})[^\u0000]{{3,512}}"
"""More than the rule accepts, which knows the letters and digits of every script, and measures in
Unicode NFC: one character may become three, and four may become one."""

STRONG = (
    rf"^(?:(?={_ASCII}*[A-Z])(?={_ASCII}*[a-z])(?={_ASCII}*[0-9]){_ASCII}{{8,128}}"
    rf"|{PASSWORD_BEYOND_ASCII})$"
)

LANGUAGE = (
    r"^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*(?:-[0-9A-WYZa-wyz](?:-[A-Za-z0-9]{2,8})+)*"
    r"(?:-[Xx](?:-[A-Za-z0-9]{1,8})+)?$"
)

_LOCAL_PART = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"(?!..--)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LAST_LABEL = (
    r"(?!(?:[Aa][Rr][Pp][Aa]|[Ii][Nn][Vv][Aa][Ll][Ii][Dd]|[Oo][Nn][Ii][Oo][Nn]"
    r"|[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt])$)"
    r"(?!..--)(?:[A-Za-z0-9][A-Za-z0-9-]{0,61})?[A-Za-z]"
)

EMAIL_BEYOND_ASCII = rf"(?=[^\u0000]*(?:{_BEYOND}|[.@][Xx][Nn]--))[^\u0000- @]+@[^\u0000- @]+"
"""More than the rule accepts, which knows valid characters and Punycode (RFC 6531, RFC 5891)."""

EMAIL = (
    rf"^(?![^@]{{65}})(?![^\u0000]{{255}})(?:{_LOCAL_PART}@(?:{_LABEL}\.)+{_LAST_LABEL}"
    rf"|{EMAIL_BEYOND_ASCII})$"
)
"""At most 254 characters."""

IPV6_HOST = r"\[[0-9A-Fa-f:.]+\]"
"""More than the rule accepts; `format: uri` says which are addresses."""

NETWORK = r"^[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?$"
"""More than the rule accepts, which reads addresses."""

_REST = r"[A-Za-z0-9._~:/@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}"
_TAIL = rf"(?:\?|{_REST})*"
_PORT = (
    r"(?!0+(?:[/?#]|$))(?:[0-9]{1,4}|[0-5][0-9]{4}"
    r"|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5]))))"
)

WEB_URL = (
    r"^(?!.{2049})[Hh][Tt][Tt][Pp][Ss]?://"
    rf"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|{IPV6_HOST})(?::{_PORT})?"
    rf"(?:/(?:{_REST})*)?(?:\?{_TAIL})?(?:#{_TAIL})?$"
)
"""At most 2048 characters."""


def trimmed(low: int, high: int) -> str:
    """Text with `low` (1 or 2) to `high` characters, without the white space around it."""
    rest = rf"[^\u0000]{{0,{high - 2}}}{_MARK}"
    core = rest if low > 1 else f"(?:{rest})?"
    return f"^[{_SPACE}]*{_MARK}{core}[{_SPACE}]*$"
