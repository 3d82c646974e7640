"""Users as the rules of kinds read them, and as references name them."""

from portico.change import Change
from portico.core.users import User
from portico.data.database import Database
from portico.features.people.storage import USERS
from portico.resource.compiled import OWN
from portico.resource.declared import Record
from portico.resource.fields import MOMENT


class UserRecord(Record):
    """A user, without credentials."""


class _Users:
    """What references and rules know of the kind."""

    table_name = "users"

    def record(self, user: User) -> UserRecord:
        """The record that rules get."""
        names = ("id", "name", "email", "role", "plan")
        times = {name: MOMENT.given(getattr(user, name)) for name in OWN[1:]}
        return UserRecord(**{name: getattr(user, name) for name in names}, **times)


class RuledUsers:
    """Users, which rules can read but not change."""

    kind = _Users()

    def __init__(self, db: Database) -> None:
        self._db = db

    async def seen(self, _change: Change, user_id: int) -> User | None:
        """The user with this id, not locked."""
        return await USERS.one(self._db, USERS.by_id, {"id": user_id})
