"""Notes about API keys."""

from portico.domain.api_keys import ApiKey
from portico.domain.events.base import Details, Event


class _OfKey(Event, frozen=True):
    target = "api_key"

    key: ApiKey

    @property
    def target_id(self) -> int:
        return self.key.id


class KeyCreated(_OfKey, frozen=True):
    """An API key was created."""

    action = "key.created"

    @property
    def details(self) -> Details:
        """Its name, type, owner, scopes and networks."""
        key = self.key
        details: Details = {"name": key.name, "type": key.type, "user_id": key.user_id}
        if key.scopes is not None:
            details["scopes"] = sorted(key.scopes)
        if key.networks is not None:
            details["networks"] = list(key.networks)
        return details


class KeyRotated(_OfKey, frozen=True):
    """An API key was replaced by a successor."""

    action = "key.rotated"

    successor: ApiKey
    previous_end: int
    """When the rotated key expires, in epoch milliseconds."""

    @property
    def details(self) -> Details:
        """Its name and its successor."""
        return {"name": self.key.name, "successor": self.successor.id}


class KeyRevoked(_OfKey, frozen=True):
    """An API key was revoked; `key` is its new state."""

    action = "key.revoked"

    @property
    def details(self) -> Details:
        """Its name and owner."""
        return {"name": self.key.name, "user_id": self.key.user_id}
