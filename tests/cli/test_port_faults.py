"""What is said of a port that nobody can listen on."""

import errno
import os
import socket

import pytest

from portico.cli.ports import port_fault


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        (
            errno.EACCES,
            (
                "choose a port from 1024 on, or name CAP_NET_BIND_SERVICE in the service's"
                " AmbientCapabilities and CapabilityBoundingSet"
            ),
        ),
        (errno.EADDRNOTAVAIL, "choose another host or port"),
    ],
)
def test_the_advice_is_about_what_the_system_says(
    monkeypatch: pytest.MonkeyPatch, why: int, advice: str
) -> None:
    def bind(_socket: socket.socket, _address: object) -> None:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(socket.socket, "bind", bind)
    fault = port_fault("127.0.0.1", 443)
    assert fault is not None
    assert fault.message == f"127.0.0.1 port 443 cannot be used: {os.strerror(why)}"
    assert fault.advice == advice
