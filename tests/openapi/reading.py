"""Reads the pages of the reference."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}


class Reading(HTMLParser):
    """Reads a page and sees that every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.opened: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> set[str]:
        """The names of its elements."""
        return set(self.opened)

    def values(self, *names: str) -> list[str]:
        """The values of attributes of these names."""
        return [value for _, name, value in self.attributes if name in names]
