"""Metadata in JSON: texts by names that the callers of the API choose."""

from typing import Annotated

from msgspec import Meta, Raw

from portico.core.rules import MAX_METADATA_KEYS, metadata_key, metadata_value
from portico.web.fields import Text, Texts

MetadataIn = Annotated[
    dict[str, str], Texts(Text(metadata_key), Text(metadata_value), most=MAX_METADATA_KEYS)
]
MetadataBody = Annotated[
    Raw,
    Meta(
        examples=[{"colour": "brass"}],
        extra_json_schema={"type": "object", "additionalProperties": {"type": "string"}},
    ),
]
