"""The webhooks of the OpenAPI document: deliveries, which Portico sends to receivers."""

from collections.abc import Mapping
from typing import Any

from portico.core.events import FAILING_DAYS, PING
from portico.data import queue
from portico.features.events.payloads import EventBody, event_data
from portico.openapi.responses import Json
from portico.openapi.schemas import SCHEMAS, example
from portico.resource.notes import EVENT_DATA, EVENT_PREVIOUS
from portico.web.messages import JSON

TAG = "deliveries"
"""Not the one of the routes below `/webhooks`: some generators write a file for each tag, so one
would overwrite the other."""


def _header(name: str, description: str, value: str, pattern: str) -> Json:
    return {
        "name": name,
        "in": "header",
        "required": True,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
        "example": value,
    }


_HEADERS = [
    _header(
        "webhook-id",
        "Identifies the event; the same in every attempt.",
        "evt_17",
        "^evt_[0-9]+$",
    ),
    _header(
        "webhook-timestamp",
        "When this attempt was made, in Unix seconds.",
        "1769847330",
        "^[0-9]+$",
    ),
    _header(
        "webhook-signature",
        "The HMAC-SHA256 of `id.timestamp.body` under the webhook's secret, in base64 after `v1,`."
        " While a secret is being replaced there are two, separated by a space.",
        "v1,dZfBmgQbZQ8BVPDsWxS0dB0EZo4HkqQ8L9nHGE5kzZk=",
        "^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)*$",
    ),
]
_RESPONSES = {
    "2XX": {"description": "The event was received. The rest of the response is ignored."},
    "410": {"description": "The receiver wants no more events: the webhook is disabled at once."},
    "default": {
        "description": "The delivery failed, as it does without a response within 15 seconds."
        f" It is retried up to {len(queue.DELIVERIES.waits)} times within about three days, and"
        " not before a `Retry-After`. Redirects are not followed."
        f" After {FAILING_DAYS} days without a success the webhook is disabled."
    },
}


def webhooks(schemas: Mapping[str, Any]) -> Json:
    """The deliveries by event type; `schemas` are those of the document, with
    `previous_schemas`."""
    return {name: {"post": _operation(name, schemas)} for name in event_data()}


def _operation(name: str, schemas: Mapping[str, Any]) -> Json:
    schema = _event(name, schemas)
    shown = example(schema, schemas)
    noun = name.partition(".")[0]
    usual = f"Sent to the webhooks whose `types` contain `{name}`, `{noun}.*` or `*`."
    return {
        "tags": [TAG],
        "operationId": f"receive_{name.replace('.', '_')}",
        "summary": name,
        "description": "Sent once, to the tested webhook only." if name == PING else usual,
        "security": [],
        "parameters": _HEADERS,
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": schema, "example": shown}},
        },
        "responses": _RESPONSES,
    }


def previous_schemas(schemas: Mapping[str, Any]) -> Json:
    """The schemas of the old values in deliveries, by name."""
    return {
        _previous(name): _old_values(name, schemas[EventBody.__name__], schemas[data.__name__])
        for name, data in event_data().items()
        if name in EVENT_PREVIOUS
    }


def _previous(name: str) -> str:
    return f"Previous{name.partition('.')[0].title()}"


def _old_values(name: str, event: Json, data: Json) -> Json:
    return {
        "type": "object",
        "description": event["properties"]["previous"]["description"],
        "properties": {key: one for key, one in data["properties"].items() if key != "updated_at"},
        "examples": [EVENT_PREVIOUS[name]],
    }


def _event(name: str, schemas: Mapping[str, Any]) -> Json:
    """The schema of an event of this type."""
    event, data = schemas[EventBody.__name__], EVENT_DATA[name].__name__
    properties = {
        **event["properties"],
        "type": {"type": "string", "const": name},
        "data": {"$ref": f"{SCHEMAS}{data}"},
    }
    required = event["required"]
    if name in EVENT_PREVIOUS:
        properties["previous"] = {"$ref": f"{SCHEMAS}{_previous(name)}"}
        required = [*required, "previous"]
    else:
        del properties["previous"]
    return {"type": "object", "properties": properties, "required": required}
