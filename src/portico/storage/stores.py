"""All repositories of one database, each named after what it stores."""

from portico.storage.api_keys import ApiKeys
from portico.storage.audit import Audit
from portico.storage.audit_ranges import AuditRanges
from portico.storage.challenges import Challenges
from portico.storage.clients import Clients
from portico.storage.database import Database
from portico.storage.deliveries import Deliveries
from portico.storage.devices import Devices
from portico.storage.email_tokens import EmailTokens
from portico.storage.empty_blocks import EmptyBlocks
from portico.storage.events import Events
from portico.storage.expiry import Expiry
from portico.storage.factors import FactorStore
from portico.storage.flushes import Flushes
from portico.storage.grants import Grants
from portico.storage.idempotency_keys import IdempotencyKeys
from portico.storage.imports import Imports
from portico.storage.invitations import Invitations
from portico.storage.leases import Leases
from portico.storage.live_credentials import LiveCredentials
from portico.storage.mails import Mails
from portico.storage.products import Products
from portico.storage.providers import ProviderStore
from portico.storage.rate_counters import RateCounters
from portico.storage.requests import Requests
from portico.storage.sessions import Sessions
from portico.storage.shown_once import ShownOnce
from portico.storage.signing_keys import SigningKeys
from portico.storage.uploads import Uploads
from portico.storage.users import Users
from portico.storage.webhooks import Webhooks


class Stores:
    """The repositories of one environment."""

    def __init__(self, db: Database, count_limit: int | None = None) -> None:
        """`count_limit` is the most products to count for a filter's total; None counts all."""
        self.users = Users(db)
        self.products = Products(db, count_limit)
        self.empty_blocks = EmptyBlocks(db)
        self.api_keys = ApiKeys(db)
        self.clients = Clients(db)
        self.grants = Grants(db)
        self.sessions = Sessions(db)
        self.devices = Devices(db)
        self.email_tokens = EmailTokens(db)
        self.factors = FactorStore(db)
        self.challenges = Challenges()
        self.invitations = Invitations(db)
        self.providers = ProviderStore(db)
        self.shown_once = ShownOnce()
        self.signing_keys = SigningKeys(db)
        self.idempotency_keys = IdempotencyKeys(db)
        self.audit = Audit(db)
        self.audit_ranges = AuditRanges(db)
        self.events = Events(db)
        self.imports = Imports(db)
        self.uploads = Uploads(db)
        self.webhooks = Webhooks(db)
        self.deliveries = Deliveries(db)
        self.mails = Mails(db)
        self.rate_counters = RateCounters(db)
        self.requests = Requests(db)
        self.leases = Leases(db)
        self.live_credentials = LiveCredentials(db)
        self.flushes = Flushes()
        self.expiry = Expiry(db)
