"""The row of agents: what a tool call costs beside the request of the API that it stands for."""

from bench import catalog, portico
from bench.load import Request
from bench.servers import Running
from bench.workshop import MIDDLE, Job, Workshop, check_answer

BOUND = 1.3
"""A tool call's processor time ÷ that of the plain request, at most."""

_CALL = """
wrk.headers["Content-Type"] = "application/json"
wrk.headers["MCP-Protocol-Version"] = "2026-07-28"
wrk.headers["Mcp-Method"] = "tools/call"
wrk.headers["Mcp-Name"] = "{tool}"

function request()
  local body = string.format([[{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{
"name":"{tool}","arguments":{{"kind":"products",{arguments}}},"_meta":{{
"io.modelcontextprotocol/protocolVersion":"2026-07-28",
"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}]], math.random({high}))
  return wrk.format("POST", "/v1/mcp", nil, body)
end
"""


def agents(shop: Workshop) -> None:
    """Reading, listing and creating, as a tool and plainly, in one server. To read a record is
    noted alone: the plain GET has no body to receive."""
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-agents"))
    with portico.serving(data, shop.log) as server:
        check_answer(server, f"{portico.PRODUCTS}?limit=25", b'"total_items":%d' % MIDDLE)
        read = Request(f"{portico.PRODUCTS}/{{N}}", high=MIDDLE)
        listing = Request(f"{portico.PRODUCTS}?page={{N}}&limit=25", high=MIDDLE // 25)
        product = catalog.new_product()
        create = Request(portico.PRODUCTS, "POST", product, high=10**8, digits=9)
        _compare(shop, server, "read_record", '"id":%d', read, bound=None)
        _compare(shop, server, "list_records", '"filters":{"page":%d}', listing)
        values = f'"values":{product.replace("{N}", "%d")}'
        _compare(shop, server, "create_record", values, create)


def _compare(
    shop: Workshop,
    server: Running,
    tool: str,
    arguments: str,
    plain: Request,
    bound: float | None = BOUND,
) -> None:
    script = _CALL.format(tool=tool, arguments=arguments, high=plain.high)
    jobs = [
        Job(f"{tool} as a tool", server, Request("/v1/mcp", script=script)),
        Job(f"{tool} plainly", server, plain),
    ]
    ours, theirs = (series.cpu_us or 0.0 for series in shop.interleave("agents", jobs))
    what = f"{tool}: processor time of a tool call ÷ of the plain request"
    if bound is None:
        shop.note("agents", what, ours / theirs, "x")
    else:
        shop.at_most("agents", what, ours / theirs, "x", bound, void=not theirs)
