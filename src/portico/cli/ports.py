"""Whether a server could listen on a port."""

import errno
import socket
import time
from typing import NamedTuple

PORT_SECONDS = 1.0
"""How long to wait for a server that just ended to release its port."""

ANOTHER_PORT = "stop it, or choose another port"
_ELSEWHERE = "choose another host or port"
_PRIVILEGED = (
    "choose a port from 1024 on, or name CAP_NET_BIND_SERVICE in the service's AmbientCapabilities"
    " and CapabilityBoundingSet"
)


class PortFault(NamedTuple):
    """Why a server cannot listen on a port, and what to do about it."""

    message: str
    advice: str
    is_used: bool


def port_fault(host: str, port: int) -> PortFault | None:
    """Why a server cannot listen on a port, or None."""
    deadline = time.monotonic() + PORT_SECONDS
    where = f"{host} port {port}"
    while (error := _refusal(host, port)) is not None:
        if error.errno != errno.EADDRINUSE:
            message = f"{where} cannot be used: {error.strerror}"
            advice = _PRIVILEGED if error.errno == errno.EACCES else _ELSEWHERE
            return PortFault(message, advice, is_used=False)
        if time.monotonic() > deadline:
            message = f"{where} is in use by another program"
            return PortFault(message, ANOTHER_PORT, is_used=True)
        time.sleep(PORT_SECONDS / 20)
    return None


def _refusal(host: str, port: int) -> OSError | None:
    """The error of binding a port now, or None. Servers bind with SO_REUSEPORT, so only this probe,
    which does not, detects a second one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None
