"""Exact prices and currencies. Internally a price is a whole number of units, 1/10000 of the
currency.

A price is never a binary float: it is read from Decimal or int and written as text.
"""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact

from portico.core.errors import BrokenRule

UNITS_PER_ONE = 10_000
MAX_PRICE = 10**12 * UNITS_PER_ONE - 1
"""The highest price, in units: 999,999,999,999.9999."""

_DIGITS_BEFORE_POINT = 12
_UNIT = Decimal("0.0001")
_EXACT = Context(prec=20, traps=[Inexact])
_DOWN = Context(prec=20, rounding=ROUND_FLOOR, traps=[])
_UP = Context(prec=20, rounding=ROUND_CEILING, traps=[])

_TOO_HIGH = "must be less than 1000000000000"
_NEGATIVE = "must not be negative"

# RFC 8259 section 6; the groups are the mantissa, the exponent's sign and its digits.
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(?:[eE]([+-]?)([0-9]+))?")
_LONGEST_EXPONENT = 9

# ISO 4217:2015, the active codes of list one as of 2026.
CURRENCIES = frozenset(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN
    BZD CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR
    FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY
    KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU
    MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON
    RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP
    TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAD XAF XAG XAU XBA XBB
    XBC XBD XCD XCG XDR XOF XPD XPF XPT XSU XTS XUA XXX YER ZAR ZMW ZWG
    """.split()  # noqa: SIM905 - ten lines of codes read better than 178 literals
)

# Of the currencies above, those whose smallest unit is not a hundredth; funds and metals aside.
_DECIMALS = {
    **dict.fromkeys(
        "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split(),  # noqa: SIM905 - as above
        0,
    ),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}

# Amounts as people write them, without spaces and apostrophes: 24.50 and 24,50, or with groups of
# thousands, 1,234.50 and 1.234,50.
_SPACES = re.compile("(?<=[0-9])[ '\u00a0\u2009\u202f\u2019](?=[0-9]{3}(?![0-9]))")
_WRITTEN = re.compile(
    r"(-?[0-9]+)(?:[.,]([0-9]+))?"
    r"|(-?[0-9]{1,3}(?:,[0-9]{3})+)(?:\.([0-9]+))?"
    r"|(-?[0-9]{1,3}(?:\.[0-9]{3})+)(?:,([0-9]+))?"
)
_EITHER_WAY = re.compile("([1-9][0-9]{0,2})([.,])([0-9]{3})")
_SPELLED_OUT = 4
"""With so many decimals, the digits cannot be mistaken for a group of thousands."""


def price_units(value: Decimal | int) -> int:
    """A price, 0 <= price < 10^12 with at most 4 decimals, in units.

    Raises `BrokenRule`. Checks the magnitude before it computes, so no exponent makes it slow.
    """
    price = Decimal(value)
    if not price.is_finite():
        raise BrokenRule("must be a number")
    if not price:
        return 0
    if price.is_signed():
        raise BrokenRule(_NEGATIVE)
    if price.adjusted() >= _DIGITS_BEFORE_POINT:
        raise BrokenRule(_TOO_HIGH)
    try:
        exact = price.quantize(_UNIT, context=_EXACT)
    except Inexact:
        raise BrokenRule("must have at most 4 decimals") from None
    return int(exact.scaleb(4, context=_EXACT))


# Computed once, because a list writes 25 prices or more for every request.
_FRACTIONS = ("", *(f".{units:04d}".rstrip("0") for units in range(1, UNITS_PER_ONE)))


def price_text(units: int) -> str:
    """A price as the shortest plain decimal, a JSON number: "12", "12.5", "0.0001"."""
    whole, fraction = divmod(units, UNITS_PER_ONE)
    return str(whole) + _FRACTIONS[fraction]


def price_written(text: str, code: str = "") -> int:
    """Reads a price as people write it, in units: with a point or a comma before the decimals, and
    with or without groups of thousands. Raises `BrokenRule`, also for ambiguous input: 1,234 and
    1.234 may have decimals or thousands, unless it is a point and the currency with this code has
    three decimals."""
    plain = _SPACES.sub("", text.strip())
    either = _EITHER_WAY.fullmatch(plain)
    if either and not (either[2] == "." and _decimals(code) == len(either[3])):
        whole, decimals = either[1], either[3]
        surely = f"{whole}.{decimals:0<{_SPELLED_OUT}}"
        raise BrokenRule(f"can be read in two ways: write {whole}{decimals} or {surely}")
    match = _WRITTEN.fullmatch(plain)
    if match is None:
        raise BrokenRule("must be a number, such as 24.50")
    whole = re.sub("[.,]", "", match[1] or match[3] or match[5])
    return price_units(Decimal(f"{whole}.{match[2] or match[4] or match[6] or 0}"))


def price_shown(units: int, code: str, *, grouped: bool = True) -> str:
    """A price for people, with at least the decimals of the currency with this code: "1,234.50" in
    USD, "1,235" in JPY. Without groups, `price_written` reads it as the same price."""
    whole, fraction = divmod(units, UNITS_PER_ONE)
    decimals = _FRACTIONS[fraction].removeprefix(".").ljust(_decimals(code), "0")
    if not grouped and len(decimals) == 3 != _decimals(code):  # else it would be ambiguous
        decimals = decimals.ljust(_SPELLED_OUT, "0")
    return (f"{whole:,}" if grouped else str(whole)) + (f".{decimals}" if decimals else "")


def _decimals(code: str) -> int:
    return _DECIMALS.get(code, 2)


def price_bound(text: str) -> Decimal:
    """Reads a bound of a price filter, a JSON number that is not negative. Raises `BrokenRule`."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise BrokenRule("must be a number")
    mantissa, sign, exponent = Decimal(match[1]), match[2] or "", (match[3] or "").lstrip("0")
    if not mantissa:
        return Decimal(0)
    if mantissa.is_signed():
        raise BrokenRule(_NEGATIVE)
    if len(exponent) > _LONGEST_EXPONENT:  # Decimal rejects very long ones
        exponent = "9" * _LONGEST_EXPONENT
    return Decimal(f"{match[1]}E{sign}{exponent or 0}")


def bound_units(bound: Decimal, *, up: bool) -> int:
    """A bound of a price filter in units, between 0 and 10^16.

    A bound between two units is rounded `up` (for a minimum) or down (for a maximum), which does
    not change the result of the filter.
    """
    if bound.adjusted() >= _DIGITS_BEFORE_POINT:
        return MAX_PRICE + 1
    context = _UP if up else _DOWN
    return int(bound.quantize(_UNIT, context=context).scaleb(4, context=context))


def currency(text: str) -> str:
    """Accepts an active ISO 4217 code in upper case; anything else raises `BrokenRule`."""
    if text not in CURRENCIES:
        raise BrokenRule("must be an ISO 4217 currency code, such as USD")
    return text
