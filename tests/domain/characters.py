"""Every character of Unicode that has a meaning: those that nobody has assigned are all alike."""

import sys
import unicodedata

CHARACTERS = [
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) not in ("Cn", "Co", "Cs")
] + ["\u0378", "\ue000", "\ud800", "\U0010ffff"]
"""With one that is unassigned, one for private use, a surrogate, and the last of all."""

MARKS = "\u0344" * 5_000 + "\u0323" * 5_000
"""10,000 combining marks of one letter, which Unicode's canonical order moves as far as it can: the
time of `normalize` grows with their square."""
