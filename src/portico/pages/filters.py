"""What templates write values with."""

import re

from markupsafe import Markup, escape

_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)"
)


def prose(text: str) -> Markup:
    """Markdown, as far as the guide and the declarations use it: paragraphs and code."""
    parts = []
    for block in re.split(r"\n{2,}", text.strip()):
        if block.startswith("```"):
            code = block.strip("`").strip("\n")
            parts.append(Markup("<pre><code>{}</code></pre>").format(code))
        else:
            parts.append(Markup("<p>{}</p>").format(inline(block)))
    return Markup("\n").join(parts)


def inline(text: str) -> Markup:
    """A paragraph's text, with its code."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(marked)  # noqa: S704 - escaped above


def coloured(text: str) -> Markup:
    """JSON text with its tokens marked for the style sheet."""
    parts, end = [], 0
    for token in _TOKEN.finditer(text):
        parts.append(escape(text[end : token.start()]))
        parts.append(Markup('<span class="{}">{}</span>').format(token.lastgroup, token[0]))
        end = token.end()
    return Markup("").join([*parts, escape(text[end:])])
