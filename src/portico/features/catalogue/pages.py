"""The dashboard's pages of products: those of a kind, with words of their own for its states."""

from collections.abc import Sequence

from portico.features.catalogue.products import PRODUCTS as KIND
from portico.resource.pages import KindPages, Move

_LISTED = "The API lists active products."
_UNLISTED = "The API lists archived products only when asked for them. Nothing is deleted."


class ProductPages(KindPages):
    """The pages of products."""

    def all_moves(self) -> Sequence[Move]:
        field = KIND.states[0]
        return [
            Move(do, words, field, field.name, state, after, done, means)
            for do, words, state, after, done, means in (
                ("publish", "Publish", "active", ["draft"], "published", _LISTED),
                ("activate", "Activate", "active", ["archived"], "activated", _LISTED),
                ("archive", "Archive", "archived", ["active", "draft"], "archived", _UNLISTED),
            )
        ]


PAGES = ProductPages(KIND)
