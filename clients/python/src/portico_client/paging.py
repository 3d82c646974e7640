"""Walking through a list page by page."""

from typing import Any, Generic, TypeVar

from portico_client.models import Page

T = TypeVar("T")

WHOLE_PAGE = 100
"""How many items to read at once where nobody says: the most, which takes the fewest requests."""


class Walk(Generic[T]):
    """Which page to read next, and which of its items are new.

    A list may change while it is walked through. What moves onto a later page because something was
    added is given once. Where something was deleted, later items move forward, onto pages that were
    read already: those are read again, so that whoever deletes what they iterate over misses none.
    """

    def __init__(self) -> None:
        self.next: int | None = 1
        """None at the end."""
        self._total = 0
        self._seen: set[int] = set()

    def take(self, page: Page[T]) -> list[T]:
        """The items of a page that were not given before."""
        place = page.pagination
        gone, self._total = self._total - place.total_items, place.total_items
        if gone > 0 and place.page > 1:
            first_moved = max(0, (place.page - 1) * place.limit - gone)
            self.next = first_moved // place.limit + 1
            return []
        self.next = place.page + 1 if place.page < place.total_pages else None
        return [item for item in page.items if self._is_new(item)]

    def _is_new(self, item: Any) -> bool:
        if item.id in self._seen:
            return False
        self._seen.add(item.id)
        return True
