"""All that may fail, on many hosts, by `script/test --cluster`."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cluster.drills import DRILLS, drill
from cluster.hosts import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as open_:
        directory = Path(open_.enter_context(TemporaryDirectory(prefix="portico-cluster-")))
        directory.chmod(0o711)
        yield Cluster(directory, open_, print)


@pytest.mark.parametrize("name", DRILLS)
def test_nothing_is_lost_stored_twice_or_failed_but_by_503(cluster: Cluster, name: str) -> None:
    assert drill(cluster, [name], print)
