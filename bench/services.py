"""The row of services: verifying a credential, checking for a proxy, and forwarding."""

import json
from dataclasses import replace

from bench import portico
from bench.load import Request
from bench.servers import BenchError
from bench.throughput import GET
from bench.workshop import MIDDLE, Job, Workshop

DECLARED = """
[services.invoices]
path = "/invoices"
upstream = "http://127.0.0.1:{port}"

[services.invoices.scopes]
"read:invoices" = {{ about = "See invoices", roles = ["viewer"] }}

[[services.invoices.rules]]
path = "/**"
scope = "read:invoices"
"""
ASKED = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/7"}
SIZE = 350
"""About as many bytes as a product has."""


def services(shop: Workshop) -> None:
    """POST /verify, GET /check and a forwarded GET, beside GET of one product, in one server."""
    data = shop.portico_data(MIDDLE).copied(shop.fresh("portico-services"))
    with shop.hello(SIZE, tls_on=False) as upstream:
        config = data.directory.with_suffix(".toml")
        declared = DECLARED.format(port=upstream.address.port)
        config.write_text(portico.LIMITS + declared)
        data = replace(data, environment={**data.environment, "PORTICO_CONFIG": str(config)})
        with portico.serving(data, shop.log) as server:
            address = server.address
            server = replace(server, address=replace(address, headers={**address.headers, **ASKED}))
            check = {"credential": data.key, "scope": "read:invoices", "address": "192.0.2.{N}"}
            requests = {
                "GET of one product": GET,
                "POST /verify": Request("/v1/verify", "POST", json.dumps(check), 9, 1),
                "GET /check": Request("/auth/check/invoices"),
                "forwarded GET": Request("/v1/invoices/7"),
            }
            for path in ("/auth/check/invoices", "/v1/invoices/7"):
                if (status := server.address.get(path)[0]) != 200:
                    raise BenchError(f"{path} answers {status}")
            jobs = [Job(name, server, request) for name, request in requests.items()]
            get, verified, checked, forwarded = shop.interleave("services", jobs)
    shop.ratio("services", "POST /verify ÷ GET of one product", verified, get, 0.8)
    shop.ratio("services", "GET /check ÷ GET of one product", checked, get, 0.9)
    what = "forwarded GET: processor time ÷ of GET of one product"
    used = (forwarded.cpu_us or 0.0) / (get.cpu_us or 1.0)
    shop.at_most("services", what, used, "x", 2.5, void=not get.cpu_us or not forwarded.cpu_us)
