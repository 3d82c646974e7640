"""Checks real responses against the OpenAPI document, more strictly than any client."""

import json
from typing import Any

import httpx
import jsonschema_rs

TRANSPORT = {
    *("content-type", "content-length", "content-encoding", "date", "server"),
    *("strict-transport-security", "x-content-type-options", "x-accel-buffering", "vary"),
    *("access-control-allow-origin", "access-control-expose-headers"),
}
"""Headers of HTTP itself, and those only for browsers or proxies. The document does not list them.
"""


class Conformance:
    """Checks responses against a document, and records which documented ones were seen."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._components = json.loads(json.dumps(document["components"]))
        for schema in self._components["schemas"].values():
            _close(schema)
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self.seen: set[tuple[str, str, str]] = set()
        """Method, path and status of every response that was checked."""

    def check(self, path: str, answer: httpx.Response) -> None:
        """Fails unless the response to a request of `path`, a key of the document, is as
        documented: its status, exactly its headers, and its body without further fields."""
        method, status = answer.request.method, str(answer.status_code)
        where = f"{method} {path} {status}"
        operation = self._document["paths"][path][method.lower()]
        assert status in operation["responses"], f"{where} is not documented"
        response = self.resolved(operation["responses"][status])
        self._check_headers(where, response, answer)
        media = response.get("content", {})
        if not media:
            assert not answer.content, where
        else:
            assert media.keys() == {answer.headers["content-type"]}, where
            ((kind, body),) = media.items()
            value = answer.json() if kind == "application/json" else answer.text
            self._check_value(where, body["schema"], value)
        self.seen.add((method, path, status))

    def check_delivery(self, name: str, event: Any) -> None:
        """Fails unless an event of this type is as documented, without further fields."""
        body = self._document["webhooks"][name]["post"]["requestBody"]
        schema = json.loads(json.dumps(body["content"]["application/json"]["schema"]))
        _close(schema)
        self._check_value(name, schema, event)

    def _check_headers(self, where: str, response: Any, answer: httpx.Response) -> None:
        headers = {name.lower(): spec for name, spec in response["headers"].items()}
        undocumented = set(answer.headers) - set(headers) - TRANSPORT
        assert not undocumented, f"{where} has {undocumented}"
        for name, ref in headers.items():
            spec = self.resolved(ref)
            if name not in answer.headers:
                assert not spec["required"], f"{where} has no {name}"
                continue
            values = answer.headers.get_list(name)
            assert len(values) == 1, f"{where} has {name} {len(values)} times"
            number = spec["schema"]["type"] == "integer"
            value = int(values[0]) if number else values[0]
            self._check_value(f"{where} {name}", spec["schema"], value)

    def _check_value(self, where: str, schema: Any, value: Any) -> None:
        known = json.dumps(schema, sort_keys=True)
        if known not in self._validators:  # each of which reads all components
            whole = {**schema, "components": self._components} if "$ref" in known else schema
            made = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
            self._validators[known] = made
        validator = self._validators[known]
        faults = [error.message for error in validator.iter_errors(value)]
        assert not faults, f"{where}: {faults} in {value}"

    def resolved(self, value: Any) -> Any:
        """The target of a reference, or the value itself."""
        found = self._document
        for part in value["$ref"].removeprefix("#/").split("/") if "$ref" in value else ():
            found = found[part]
        return found if "$ref" in value else value


def _close(schema: Any) -> None:
    """Forbids fields that an object does not declare."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    for part in schema.get("properties", {}).values():
        _close(part)
    if isinstance(schema.get("items"), dict):
        _close(schema["items"])
