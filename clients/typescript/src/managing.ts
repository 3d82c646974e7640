import { at, type Calling, type Calls, type Changing, type Creating, query } from "./calls.js";
import { AuditListing, Listing } from "./listing.js";
import type {
  AuditFilters,
  Invitation,
  InvitationFilters,
  InvitationWithLink,
  NewInvitation,
  NewOAuthClient,
  OAuthClient,
  OAuthClientChanges,
  OAuthClientFilters,
  OAuthClientWithSecret,
  UsageFilters,
  UsageRow,
} from "./models.js";
import { rowsOf, tagged, taggedOf } from "./reading.js";
import { read } from "./resources.js";

const INVITATIONS = "/invitations";

/** Who may make themselves an account. All needs the scope `admin`; only live can invite. */
export class Invitations {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Invitations that were not accepted, newest first, expired ones too. */
  list(filters: InvitationFilters = {}, calling: Calling = {}): Listing<Invitation> {
    return new Listing(this.#calls, INVITATIONS, filters, calling);
  }

  /** One invitation. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<Invitation> {
    return read(this.#calls, at(INVITATIONS, id), calling);
  }

  /** Invites an e-mail. `idempotencyKey` works as in `Products.create`. Throws `Duplicate` if it has an account, `SecretLost` if
   * the response was lost. */
  create(fields: NewInvitation, { idempotencyKey, signal }: Creating = {}): Promise<InvitationWithLink> {
    return this.#calls.secret<InvitationWithLink>(INVITATIONS, { fields, idempotencyKey, signal }, lostLink, taggedOf);
  }

  /** Replaces the link of an invitation, also of an expired one. Throws `SecretLost` if the response was lost. */
  renew(id: number, calling: Calling = {}): Promise<InvitationWithLink> {
    return this.#calls.secret<InvitationWithLink>(`${at(INVITATIONS, id)}/renew`, calling, lostLink, taggedOf);
  }

  /** Revokes an invitation. `ifMatch` works as in `Products.update`. */
  delete(id: number, { ifMatch, signal }: Changing = {}): Promise<void> {
    return this.#calls.done("DELETE", at(INVITATIONS, id), { ifMatch, signal });
  }
}

function lostLink({ id }: Invitation): string {
  return `invitation ${id} was made, but the response was lost: renew it`;
}

const CLIENTS = "/clients";

/** The OAuth clients. All needs the scope `admin`. */
export class OAuthClients {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Clients, newest first. */
  list(filters: OAuthClientFilters = {}, calling: Calling = {}): Listing<OAuthClient> {
    return new Listing(this.#calls, CLIENTS, filters, calling);
  }

  /** One client. Throws `NotFound`. */
  get(clientId: string, calling?: Calling): Promise<OAuthClient> {
    return read(this.#calls, atClient(clientId), calling);
  }

  /** Registers a client. `idempotencyKey` works as in `Products.create`. Throws `SecretLost` if the response was lost. */
  create(fields: NewOAuthClient, { idempotencyKey, signal }: Creating = {}): Promise<OAuthClientWithSecret> {
    const given = { fields, idempotencyKey, signal };
    if (fields.public) return tagged(this.#calls.make("POST", CLIENTS, given));
    return this.#calls.secret<OAuthClientWithSecret>(CLIENTS, given, lostSecret, taggedOf);
  }

  /** Changes the given fields and leaves the others. */
  update(clientId: string, changes: OAuthClientChanges, { ifMatch, signal }: Changing = {}): Promise<OAuthClient> {
    return tagged(this.#calls.make("PATCH", atClient(clientId), { fields: changes, ifMatch, signal }));
  }

  /** Deletes a client, and ends its access to accounts. `ifMatch` works as in `update`. */
  delete(clientId: string, { ifMatch, signal }: Changing = {}): Promise<void> {
    return this.#calls.done("DELETE", atClient(clientId), { ifMatch, signal });
  }

  /** Gives a confidential client a new secret; the old one is void at once. Throws `SecretLost` if the response was lost. */
  rotateSecret(clientId: string, calling: Calling = {}): Promise<OAuthClientWithSecret> {
    return this.#calls.secret<OAuthClientWithSecret>(`${atClient(clientId)}/rotate-secret`, calling, lostSecret, taggedOf);
  }
}

function atClient(clientId: string): string {
  return `${CLIENTS}/${encodeURIComponent(clientId)}`;
}

function lostSecret({ client_id: clientId }: OAuthClient): string {
  return `${clientId} has a new secret, but the response was lost: rotate it`;
}

/** The audit log. It needs the scope `admin`. */
export class Audit {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Entries, oldest first. A reader that continues `after` the last entry it has misses none. Reading throws `Gone` if entries
   * after that one were removed. */
  list(filters: AuditFilters = {}, calling: Calling = {}): AuditListing {
    return new AuditListing(this.#calls, "/audit", filters, calling);
  }
}

/** How many requests accounts made. */
export class Usage {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** The caller's hours, days or months with requests, oldest first, or those of another user, which needs the scope `admin`. */
  async list(filters: UsageFilters = {}, calling: Calling = {}): Promise<UsageRow[]> {
    return rowsOf<UsageRow>(await this.#calls.make("GET", `/usage${query(filters)}`, calling));
  }
}
