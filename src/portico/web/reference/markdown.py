"""Markdown as descriptions use it (headings, lists, tables, code, links, emphasis), and JSON with
its tokens marked. Whatever else a text holds is shown as text."""

import re
from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

# A string that is cut off goes on to the end: else each quote in it would begin another search.
_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*(?:"|\\?\Z))'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>true|false|null)"
)
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_HEADING = re.compile(r" {0,3}#{1,6} +(.+?)[ #]*$")
_SECTION = re.compile(r"##? +(.+?)[ #]*$")
_ITEM = re.compile(r"( *)(?:([-*+])|\d{1,9}[.)]) +(.*)")
_DELIMITERS = re.compile(r" *\|?( *:?-+:? *\|)* *:?-+:? *\|? *$")
_SPAN = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\[(?P<words>[^\[\]]+)\]\((?P<target>[^\s()]+)(?: \"[^\"]*\")?\)|<(?P<link>https?://[^\s<>]+)>"
    r"|\*\*(?P<strong>\S(?:[^*]*\S)?)\*\*|(?<!\w)(?P<sign>[*_])(?P<em>[^\s*_](?:[^*_]*[^\s*_])?)(?P=sign)(?!\w)"
)
_TARGET = re.compile(r"https?://|mailto:|[#/.?]|[^:]*$")
"""The addresses that a link may have: none that is a script."""


_NUMBER = Markup(' class="number"')


def sections(text: str) -> tuple[str, list[tuple[str, str]]]:
    """A text's beginning, and its sections by their headings of the first two levels."""
    start: list[str] = []
    found: list[tuple[str, list[str]]] = []
    lines, fence = start, ""
    for line in text.splitlines():
        fence = _fence_after(line, fence)
        heading = None if fence else _SECTION.match(line)
        if heading:
            lines = []
            found.append((heading[1], lines))
        else:
            lines.append(line)
    return "\n".join(start), [(title, "\n".join(lines)) for title, lines in found]


def prose(text: str) -> Markup:
    """Renders the blocks of a text."""
    return Markup("\n").join(_blocks(text.splitlines()))


def inline(text: str) -> Markup:
    """Renders the text of a paragraph."""
    parts, end = [], 0
    for span in _SPAN.finditer(text):
        parts += [escape(text[end : span.start()]), _span(span)]
        end = span.end()
    return Markup("").join([*parts, escape(text[end:])])


def coloured(text: str) -> Markup:
    """Marks the tokens of JSON text for the style sheet."""
    parts, end = [], 0
    for token in _TOKEN.finditer(text):
        parts.append(escape(text[end : token.start()]))
        parts.append(Markup('<span class="{}">{}</span>').format(token.lastgroup, token[0]))
        end = token.end()
    return Markup("").join([*parts, escape(text[end:])])


def _span(span: re.Match[str]) -> Markup:
    if span["code"]:
        return Markup("<code>{}</code>").format(span["code"])
    if span["strong"]:
        return Markup("<strong>{}</strong>").format(inline(span["strong"]))
    if span["em"]:
        return Markup("<em>{}</em>").format(inline(span["em"]))
    target = span["target"] or span["link"]
    words = inline(span["words"]) if span["words"] else escape(target)
    if not _TARGET.match(target):
        return words
    return Markup('<a href="{}">{}</a>').format(target, words)


def _fence_after(line: str, fence: str) -> str:
    """The fence of the code block that a line leaves open, empty outside of code."""
    found = _FENCE.match(line)
    if not fence:
        return found[1] if found else ""
    return "" if found and found[1].startswith(fence) else fence


def _blocks(lines: Sequence[str]) -> Iterator[Markup]:
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if fence := _fence_after(line, ""):
            while end < len(lines) and _fence_after(lines[end], fence):
                end += 1
            code = "\n".join(lines[at + 1 : end])
            yield Markup('<pre tabindex="0"><code>{}</code></pre>').format(code)
            end += 1
        elif heading := _HEADING.match(line):
            yield Markup("<h3>{}</h3>").format(inline(heading[1]))
        elif _ITEM.match(line):
            while end < len(lines) and (lines[end].startswith(" ") or _ITEM.match(lines[end])):
                end += 1
            yield _list(lines[at:end])
        elif _is_table(lines, at):
            while end < len(lines) and "|" in lines[end]:
                end += 1
            yield _table(lines[at:end])
        elif line.strip():
            while end < len(lines) and not _begins_block(lines, end):
                end += 1
            yield Markup("<p>{}</p>").format(inline("\n".join(lines[at:end]).strip()))
        at = end


def _begins_block(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    if not line.strip() or _FENCE.match(line) or _HEADING.match(line) or _is_table(lines, at):
        return True
    return bool(_ITEM.match(line))


def _is_table(lines: Sequence[str], at: int) -> bool:
    return "|" in lines[at] and at + 1 < len(lines) and bool(_DELIMITERS.match(lines[at + 1]))


def _list(lines: Sequence[str]) -> Markup:
    """A list; an item's further lines are indented."""
    items: list[list[str]] = []
    first = _ITEM.match(lines[0])
    depth, name = (len(first[1]), "ul" if first[2] else "ol") if first else (0, "ul")
    for line in lines:
        item = _ITEM.match(line)
        if item and len(item[1]) <= depth:
            items.append([item[3]])
        else:
            items[-1].append(line)
    made = (Markup("<li>{}</li>").format(_item(item)) for item in items)
    return Markup("<{0}>{1}</{0}>").format(name, Markup("").join(made))


def _item(lines: Sequence[str]) -> Markup:
    below = next((at for at, line in enumerate(lines) if at and _begins_block(lines, at)), None)
    text = inline(" ".join(line.strip() for line in lines[:below]))
    return text if below is None else text + Markup("").join(_blocks(lines[below:]))


def _table(lines: Sequence[str]) -> Markup:
    names, delimiters, *rows = [_cells(line) for line in lines]
    right = [cell.endswith(":") and not cell.startswith(":") for cell in delimiters]
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_number(is_right and at > 0), inline(name))
        for at, (name, is_right) in enumerate(zip(names, right, strict=False))
    )
    body = Markup("\n").join(_row(row, right) for row in rows)
    return Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0">\n<table>\n'
        "<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table>\n</div>"
    ).format(", ".join(names), head, body)


def _row(cells: Sequence[str], right: Sequence[bool]) -> Markup:
    """A row. One that names a code beside its first cell can be linked to and searched for."""
    made, anchor = [], Markup("")
    for at, (cell, is_right) in enumerate(zip(cells, right, strict=False)):
        anchored = re.fullmatch(r"`([\w.-]+)` (.+)", cell)
        if anchored:
            inner = Markup('<div class="code"><code>{}</code> <span>{}</span></div>')
            made.append(
                Markup("<td>{}</td>").format(inner.format(anchored[1], inline(anchored[2])))
            )
            anchor = anchor or Markup(' id="{}-{}" tabindex="-1"').format(cells[0], anchored[1])
        elif at or is_right:
            made.append(Markup("<td{}>{}</td>").format(_number(is_right), inline(cell)))
        else:
            made.append(Markup('<th scope="row">{}</th>').format(inline(cell)))
    return Markup("<tr{}>{}</tr>").format(anchor, Markup("").join(made))


def _number(is_right: bool) -> Markup:  # noqa: FBT001 - says what it is
    return _NUMBER if is_right else Markup()


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip().replace("\\|", "|") for cell in cells]
