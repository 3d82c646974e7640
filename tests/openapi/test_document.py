"""The OpenAPI document says what the declarations say, all of it, and is well formed."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from os import urandom
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from driving import Api
from portico.core import errors
from portico.core.events import EVENT_TYPES, PING
from portico.core.oauth import OPENID_SCOPES
from portico.core.plans import DEFAULT_PLANS
from portico.core.scopes import SCOPES
from portico.features.events.rules import mint_webhook_secret, signed_headers
from portico.mounts import AUTH, V1
from portico.openapi.document import DocumentPart, document, tags
from portico.openapi.responses import possible_errors
from portico.web.problems import STATUS
from portico.web.reading import Faults, decode, fields
from portico.web.routing import Access, superseded

ADDRESS = "https://localhost:8443/v1"
AUTH_ADDRESS = "https://localhost:8443/auth"
JSON_ROUTES = [route for route in (*V1, *AUTH) if not route.form]


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in described["paths"].items():
        for method, operation in item.items():
            yield path, method.upper(), operation


def resolved(described: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    found = described
    for part in value["$ref"].removeprefix("#/").split("/") if "$ref" in value else ():
        found = found[part]
    return found if "$ref" in value else value


def test_it_is_a_valid_openapi_3_1_document(described: dict[str, Any]) -> None:
    OpenAPIV31SpecValidator(described).validate()
    assert described["servers"] == [{"url": ADDRESS}]


def test_every_route_is_in_it_and_nothing_else(described: dict[str, Any]) -> None:
    documented = {(method, path) for path, method, _ in operations(described)}
    assert documented == {(route.method, route.path) for route in (*V1, *AUTH)}


def test_every_tag_is_described(described: dict[str, Any]) -> None:
    used = {tag for _, _, operation in operations(described) for tag in operation["tags"]}
    sent = {tag for item in described["webhooks"].values() for tag in item["post"]["tags"]}
    assert used | sent == {tag["name"] for tag in described["tags"]} == set(tags())
    # openapi-generator writes a file for each tag of either, and the second overwrites the first.
    assert used & sent == set()


def test_every_error_of_a_route_is_in_it_with_its_code(described: dict[str, Any]) -> None:
    for route in JSON_ROUTES:
        answers = described["paths"][route.path][route.method.lower()]["responses"]
        for error in possible_errors(route):
            answer = resolved(described, answers[str(STATUS[error])])
            schema = resolved(described, answer["content"]["application/json"]["schema"])
            facts = resolved(described, schema["properties"]["error"])
            assert error.code in facts["allOf"][1]["properties"]["code"]["enum"], route
        told, anyone = answers.keys(), route.access is Access.ANYONE
        assert {"400", "406", "429", "500", "503"} <= told
        assert ("401" in told) == (not anyone or errors.AuthenticationRequired in route.errors)
        denied = errors.PermissionDenied in route.errors
        assert ("403" in told) == (route.same_origin or not anyone or denied)
        for status in ("408", "413", "415"):
            assert (status in told) == (bool(route.body) or route.repeatable)
        assert ("404" in told) == ("{id}" in route.path)
        assert ("412" in told) == route.conditional
        assert ("304" in told) == route.tagged


def test_endpoints_of_oauth_refuse_as_oauth_does(described: dict[str, Any]) -> None:
    for route in (route for route in AUTH if route.form):
        operation = described["paths"][route.path]["post"]
        content = operation["requestBody"]["content"]
        assert content.keys() == {"application/x-www-form-urlencoded", "application/json"}
        answers = operation["responses"]
        assert answers.keys() == {"200", "400", "401", "408", "413", "415", "429", "500", "503"}
        for status, answer in answers.items():
            found = resolved(described, answer)
            assert found["headers"]["Cache-Control"]["schema"]["const"] == "no-store"
            if status >= "400":
                schema = resolved(described, found["content"]["application/json"]["schema"])
                assert schema["allOf"][0] == {"$ref": "#/components/schemas/OAuthError"}


def test_the_body_of_every_response_has_a_named_schema(described: dict[str, Any]) -> None:
    """Generators number what has no name, or make a type of it for each operation."""
    for _, _, operation in operations(described):
        for answer in operation["responses"].values():
            for kind, media in resolved(described, answer).get("content", {}).items():
                assert kind == "text/event-stream" or media["schema"].keys() == {"$ref"}
    for name, schema in described["components"]["schemas"].items():
        if name.endswith("Error") and "properties" in schema:
            assert not schema["properties"]["error"].keys() & {"allOf", "properties"}, name


def test_every_example_keeps_its_schema(described: dict[str, Any]) -> None:
    components = described["components"]
    validators: dict[str, Any] = {}
    checked = 0
    for _, _, operation in operations(described):
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        bodies += [resolved(described, answer) for answer in operation["responses"].values()]
        for body in bodies:
            for media in body.get("content", {}).values():
                shown = [example["value"] for example in media.get("examples", {}).values()]
                known = json.dumps(media["schema"])
                if known not in validators:  # each of which reads all components
                    schema = {**media["schema"], "components": components}
                    made = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
                    validators[known] = made
                validator = validators[known]
                for value in [*shown, *([media["example"]] if "example" in media else [])]:
                    assert validator.is_valid(value), value
                    checked += 1
    assert checked > 100


@pytest.mark.parametrize("shape", dict.fromkeys(route.body for route in JSON_ROUTES if route.body))
def test_the_example_of_a_body_can_be_sent(shape: type[msgspec.Struct]) -> None:
    decode(shape, json.dumps(getattr(shape, "EXAMPLE")).encode())  # noqa: B009 - not of every Struct


def test_every_type_of_event_is_a_webhook_with_an_example(described: dict[str, Any]) -> None:
    assert described["webhooks"].keys() == {*EVENT_TYPES, PING}
    names = [item["post"]["operationId"] for item in described["webhooks"].values()]
    names += [operation["operationId"] for _, _, operation in operations(described)]
    assert len(set(names)) == len(names)
    for name, item in described["webhooks"].items():
        operation = item["post"]
        media = operation["requestBody"]["content"]["application/json"]
        schema = {**media["schema"], "components": described["components"]}
        validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
        assert validator.is_valid(media["example"])
        assert not validator.is_valid(media["example"] | {"type": "other"})
        assert ("previous" in media["example"]) == name.endswith(".updated")
        assert operation["responses"].keys() == {"2XX", "410", "default"}
        assert operation["security"] == [], "a receiver knows none of our credentials"


def test_the_headers_of_deliveries_are_those_that_sign_them(described: dict[str, Any]) -> None:
    secrets = [mint_webhook_secret(random) for random in (bytes, urandom)]
    sent = signed_headers(secrets, "evt_17", 1_769_847_330, b"{}")
    for item in described["webhooks"].values():
        parameters = {one["name"]: one for one in item["post"]["parameters"]}
        assert parameters.keys() == sent.keys()
        for name, value in sent.items():
            for text in (value, parameters[name]["example"]):
                assert re.search(parameters[name]["schema"]["pattern"], text), text


def test_credentials_and_scopes_are_named_where_they_are_needed(described: dict[str, Any]) -> None:
    paths = described["paths"]
    any_of = [{"bearer": []}, {"oauth": ["write:users"]}, {"cookie": []}]
    assert paths["/users"]["post"]["security"] == any_of
    assert "security" not in paths["/users/me"]["get"]
    assert described["security"] == [{"bearer": []}, {"oauth": []}, {"cookie": []}]
    schemes = described["components"]["securitySchemes"]
    assert schemes.keys() == {"bearer", "oauth", "cookie", "client"}
    code = schemes["oauth"]["flows"]["authorizationCode"]
    assert code["tokenUrl"] == f"{AUTH_ADDRESS}/token"
    assert code["scopes"].keys() == {*OPENID_SCOPES, *SCOPES}
    assert paths["/sessions"]["post"]["security"] == paths["/login"]["post"]["security"] == []
    assert paths["/sessions"]["delete"]["security"] == [{"cookie": []}]
    assert paths["/api-keys"]["post"]["security"] == [{"bearer": []}, {"cookie": []}]
    assert paths["/userinfo"]["get"]["security"] == [{"oauth": ["openid"]}]
    assert paths["/token"]["post"]["security"] == [{"client": []}, {}]


def test_a_repeatable_route_takes_a_key_and_says_what_came_of_it(described: dict[str, Any]) -> None:
    for route in V1:
        operation = described["paths"][route.path][route.method.lower()]
        names = {parameter["name"] for parameter in operation.get("parameters", [])}
        assert ("Idempotency-Key" in names) == route.repeatable
        headers = operation["responses"][str(route.status)]["headers"]
        assert ("Idempotent-Replayed" in headers) == route.repeatable
        if route.repeatable:
            assert {"409", "422"} <= operation["responses"].keys()


def test_a_superseded_version_is_deprecated_on_every_answer() -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
    headers = superseded(since, until, "https://localhost:8443/v2")
    described = document(
        DocumentPart(ADDRESS, V1),
        DocumentPart(AUTH_ADDRESS, ()),
        DEFAULT_PLANS,
        headers,
        site_name="Portico",
    )
    OpenAPIV31SpecValidator(described).validate()
    for _, _, operation in operations(described):
        assert operation["deprecated"] is True
        for answer in operation["responses"].values():
            named = resolved(described, answer)["headers"].keys()
            assert {"Deprecation", "Sunset", "Link"} <= named
    link = described["components"]["headers"]["Link"]["schema"]
    assert link["const"] == '<https://localhost:8443/v2>; rel="successor-version"'


async def test_both_environments_serve_their_documents_to_anyone(
    api: Api, described: dict[str, Any]
) -> None:
    stranger = api.stranger()
    base, sandbox = "https://localhost:8443/v1", "https://localhost:8443/sandbox/v1"
    auth, sandbox_auth = "https://localhost:8443/auth", "https://localhost:8443/sandbox/auth"
    told = {}
    for address in (base, sandbox, auth, sandbox_auth):
        answer = await stranger.get(f"{address}/openapi.json")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert "x-ratelimit-limit" not in answer.headers
        assert answer.json()["servers"] == [{"url": address}]
        told[address] = answer.text
        again = {"if-none-match": answer.headers["etag"]}
        again_answer = await stranger.get(f"{address}/openapi.json", headers=again)
        assert (again_answer.status_code, again_answer.content) == (304, b"")
    for one, other in ((base, sandbox), (auth, sandbox_auth)):
        assert told[other].replace(sandbox_auth, auth).replace(sandbox, base) == told[one]
    whole = {**json.loads(told[base])["paths"], **json.loads(told[auth])["paths"]}
    for path, method, operation in operations(described):
        alone = whole[path].pop(method.lower())
        assert alone == {name: one for name, one in operation.items() if name != "servers"}
    assert not any(whole.values()), "nothing stands twice, and nothing in one of them alone"
    assert json.loads(told[base])["externalDocs"]["url"] == f"{auth}/openapi.json"


async def test_the_document_can_be_read_and_not_be_written(api: Api) -> None:
    stranger = api.stranger()
    head = await stranger.head("/openapi.json")
    assert (head.status_code, head.content) == (200, b"")
    refusal = await stranger.post("/openapi.json")
    assert refusal.status_code == STATUS[errors.MethodNotAllowed]
    assert refusal.headers["allow"] == "GET, HEAD"


def test_422_is_told_of_where_a_value_can_break_a_rule(described: dict[str, Any]) -> None:
    for route in JSON_ROUTES:
        if route.body is None:
            continue
        faults = Faults()
        odd: tuple[Any, ...] = ("", "x" * 100_000, -1, [], {})
        for name, kind in fields(route.body).items():
            for value in odd:
                kind.read(value, name, faults)
        answers = described["paths"][route.path][route.method.lower()]["responses"]
        assert ("422" in answers) == bool(faults.broken), route


def test_a_schema_with_properties_or_a_choice_says_of_what_type_it_is(
    described: dict[str, Any],
) -> None:
    def check(value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                check(inner)
        if isinstance(value, dict) and isinstance(value.get("properties"), dict):
            assert value.get("type") == "object", value
        if isinstance(value, dict) and isinstance(value.get("enum"), list):
            (kind,) = {type(one) for one in value["enum"]}
            assert value.get("type") == {str: "string", int: "integer"}[kind], value

    check(described)
