"""The program of `script/cluster`."""

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from cluster.drills import DRILLS, drill
from cluster.hosts import Cluster
from cluster.stores import ClusterError


def main() -> int:
    """Starts the cluster, runs drills or waits for Ctrl-C, and stops it. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="script/cluster")
    parser.add_argument("--drill", action="store_true", help="break it under load, and tell")
    parser.add_argument("--only", nargs="+", choices=DRILLS, metavar="NAME", help="of the drills")
    parser.add_argument(
        "--requests", type=int, default=0, metavar="N", help="roll hosts until so many were served"
    )
    parser.add_argument(
        "--retries", type=int, default=2, metavar="N", help="of HAProxy, where a host is silent"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as open_:
        directory = Path(
            open_.enter_context(tempfile.TemporaryDirectory(prefix="portico-cluster-"))
        )
        directory.chmod(0o711)  # PostgreSQL runs as another user
        try:
            cluster = Cluster(directory, open_, say, given.retries)
            if given.drill:
                return 0 if drill(cluster, given.only or list(DRILLS), say, given.requests) else 1
            print(
                f"\n  address    {cluster.origin}\n  authority  {cluster.authority}\n"
                f"  key        {cluster.key}\n  status     "
                f"http://127.0.0.1:{cluster.balancer.status_port}/\n\n"
                f"  curl --cacert {cluster.authority} -H 'Authorization: Bearer {cluster.key}' "
                f"{cluster.origin}/v1/users/me\n\nCtrl-C ends all of it.",
                flush=True,
            )
            signal.pause()
        except KeyboardInterrupt:
            say("ending all of it")
        except (ClusterError, RuntimeError) as error:
            say(f"failed: {error}")
            return 1
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):  # do not interrupt the clean-up
                signal.signal(number, signal.SIG_IGN)
    return 0


def say(what: str) -> None:
    """Prints one line of progress."""
    print(f"· {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
