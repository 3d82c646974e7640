"""Load by wrk: one thread on the load's core, keep-alive, requests from a small Lua script."""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.servers import LOAD_CPU, Address, BenchError

_RANDOM = """\
local before, after

function init(args)
  local text = wrk.format({method}, {path}, nil, {body})
  local from, to = text:find({mark}, 1, true)
  before, after = text:sub(1, from - 1), text:sub(to + 1)
  math.randomseed({seed})
end

function request()
  return before .. string.format({number}, math.random({high})) .. after
end
"""

_FIXED = """\
wrk.method = {method}
wrk.path = {path}
"""

_PAUSE = """
function delay()
  return math.random(0, {longest})
end
"""

_DONE = """
function done(summary, latency, requests)
  local errors = summary.errors
  io.stderr:write(string.format(
    '{{"requests": %d, "microseconds": %d, "p50": %d, "p99": %d, "refused": %d, "broken": %d}}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@dataclass(frozen=True)
class Request:
    """A request to repeat. `{N}` in the path or body is replaced by a new random number."""

    path: str
    method: str = "GET"
    body: str | None = None
    high: int = 1
    """The numbers are 1 to this."""
    digits: int = 0
    """Numbers are zero-padded to so many digits: the length of a body is set only once."""

    script: str | None = None
    """Lua that generates the requests, if a path and a body are not enough."""
    pause_ms: int = 0
    """How long a connection waits on average after a response; 0 loads the server fully."""
    connections: int = 32
    """The number of connections."""
    keep_alive: bool = True
    """Whether each connection is used for more than one request."""

    @property
    def mark(self) -> str:
        """The placeholder in the request's text, as long as the number."""
        return "@" * (self.digits or 8)


@dataclass(frozen=True)
class Sample:
    """The results of one run of wrk."""

    requests: int
    per_second: float
    p50_ms: float
    p99_ms: float
    refused: int
    """Responses that were not successful."""
    broken: int
    """Connections refused or reset, and requests that timed out."""
    cpu_us: float | None = None
    """Processor time of the server for each request, in microseconds, if it was measured.

    Unlike the rate, it hardly changes when something else takes the core for a while.
    """

    @property
    def void(self) -> bool:
        """Whether any request failed: then the run did not measure what it should."""
        return self.refused + self.broken > 0 or self.requests == 0


def _lua(text: str) -> str:
    return json.dumps(text)


def _script(request: Request, headers: Mapping[str, str], seed: int) -> str:
    lines = [f"wrk.headers[{_lua(name)}] = {_lua(value)}" for name, value in headers.items()]
    if not request.keep_alive:
        lines.append('wrk.headers["Connection"] = "close"')
    if request.script is not None:
        return "\n".join([*lines, request.script, _DONE.format()])
    if request.body is not None:
        lines.append('wrk.headers["Content-Type"] = "application/json"')
    random = "{N}" in request.path + (request.body or "")
    lines.append(
        (_RANDOM if random else _FIXED).format(
            method=_lua(request.method),
            path=_lua(request.path.replace("{N}", request.mark)),
            body="nil" if request.body is None else _lua(request.body.replace("{N}", request.mark)),
            mark=_lua(request.mark),
            seed=seed,
            number=_lua(f"%0{request.digits}d" if request.digits else "%d"),
            high=request.high,
        )
    )
    if request.pause_ms:
        lines.append(_PAUSE.format(longest=2 * request.pause_ms))
    return "\n".join([*lines, _DONE.format()])


def wrk(address: Address, request: Request, seconds: int, *, seed: int) -> Sample:
    """Sends `request` for `seconds` over its connections, as fast as the server responds.

    wrk itself counts statuses from 400 up. Checking each response in Lua would make it slower than
    the servers.
    """
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "requests.lua"
        # The script contains a credential, so it is in a directory that only we can read, and not
        # an argument, which the process list would show.
        script.write_text(_script(request, address.headers, seed))
        threads = ["-t1", f"-c{request.connections}", f"-d{seconds}s", "--timeout", "10s"]
        argv = ["taskset", "-c", LOAD_CPU, "wrk", *threads, "-s", str(script), address.origin]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    try:
        seen = json.loads(done.stderr.splitlines()[-1])
    except (IndexError, ValueError):
        raise BenchError(f"wrk gave no figures: {done.stderr or done.stdout}") from None
    return Sample(
        requests=seen["requests"],
        per_second=seen["requests"] / (seen["microseconds"] / 1e6),
        p50_ms=seen["p50"] / 1000,
        p99_ms=seen["p99"] / 1000,
        refused=seen["refused"],
        broken=seen["broken"],
    )


class Series:
    """The samples of one request to one server, round by round."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.samples: list[Sample] = []

    @property
    def void(self) -> bool:
        """Whether any run is void: the median would hide what went wrong."""
        return any(sample.void for sample in self.samples)

    @property
    def per_second(self) -> float:
        """Median requests per second."""
        return statistics.median(sample.per_second for sample in self.samples)

    @property
    def p50_ms(self) -> float:
        """Median of the rounds' medians."""
        return statistics.median(sample.p50_ms for sample in self.samples)

    @property
    def p99_ms(self) -> float:
        """Median of the rounds' 99th percentiles."""
        return statistics.median(sample.p99_ms for sample in self.samples)

    @property
    def cpu_us(self) -> float | None:
        """Median processor time for each request, in microseconds."""
        watched = [sample.cpu_us for sample in self.samples if sample.cpu_us is not None]
        return statistics.median(watched) if watched else None

    def as_json(self) -> dict[str, object]:
        """Medians and every sample behind them."""
        return {
            "name": self.name,
            "void": self.void,
            "per_second": round(self.per_second, 1),
            "p50_ms": round(self.p50_ms, 3),
            "p99_ms": round(self.p99_ms, 3),
            "cpu_us": self.cpu_us,
            "samples": [asdict(sample) for sample in self.samples],
        }
