"""Which products rows of a file have named."""

from hypothesis import given
from hypothesis import strategies as st

from portico.core.ids import MAX_ID
from portico.resource.file_rows import Named


@given(st.lists(st.integers(1, 5_000) | st.integers(MAX_ID - 5_000, MAX_ID)))
def test_an_id_is_new_once_wherever_it_lies(ids: list[int]) -> None:
    named, known = Named(), set[int]()
    for each in ids:
        assert named.add(each) == (each not in known)
        known.add(each)
