"""Walking through lists against a model of one, which may change meanwhile."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from client.scripted import CASES
from portico_client.models import Page, Pagination
from portico_client.paging import Walk


@dataclass(frozen=True)
class Thing:
    """What a list holds."""

    id: int


@dataclass
class Model:
    """A list as the service has it."""

    ids: list[int]
    limit: int
    read: int = field(default=0)

    def page(self, number: int) -> Page[Thing]:
        """One of its pages."""
        self.read += 1
        start = (number - 1) * self.limit
        items = tuple(map(Thing, self.ids[start : start + self.limit]))
        total = len(self.ids)
        return Page(items, Pagination(number, self.limit, total, -(-total // self.limit)))


sizes = st.integers(0, 60)
limits = st.integers(1, 9)


def walked(model: Model, between: list[list[int]], change: str) -> list[int]:
    """The ids that a walk gives; after each page the model changes by the next of `between`."""
    walk = Walk[Thing]()
    given_: list[int] = []
    changes = iter(between)
    fresh = iter(range(1000, 2000))
    while walk.next is not None:
        given_ += [thing.id for thing in walk.take(model.page(walk.next))]
        for place in next(changes, []):
            if change == "delete" and model.ids:
                del model.ids[place % len(model.ids)]
            elif change == "insert":
                model.ids.insert(place % (len(model.ids) + 1), next(fresh))
        assert model.read < 1000, "the walk ends"
    return given_


@CASES
@given(sizes, limits)
def test_a_list_that_stays_is_given_once_and_in_order(size: int, limit: int) -> None:
    model = Model(list(range(size)), limit)
    assert walked(model, [], "stay") == list(range(size))
    assert model.read == max(1, -(-size // limit)), "no page is read twice"


@CASES
@given(sizes, limits, st.lists(st.lists(st.integers(0, 99), max_size=12), max_size=12))
def test_what_stays_is_given_once_while_others_are_added(
    size: int, limit: int, between: list[list[int]]
) -> None:
    found = walked(Model(list(range(size)), limit), between, "insert")
    assert len(found) == len(set(found))
    assert [one for one in found if one < size] == list(range(size))


@CASES
@given(sizes, limits, st.lists(st.lists(st.integers(0, 99), max_size=12), max_size=12))
def test_what_stays_is_given_once_while_others_are_deleted(
    size: int, limit: int, between: list[list[int]]
) -> None:
    model = Model(list(range(size)), limit)
    found = walked(model, between, "delete")
    assert len(found) == len(set(found))
    assert set(model.ids) <= set(found)
    assert found == sorted(found), "the order stays"
