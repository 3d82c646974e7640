import { Access } from "./access.js";
import { ApiKeys } from "./api_keys.js";
import { type Calling, Calls, type Changing } from "./calls.js";
import type { Credential } from "./credentials.js";
import { addresses, variable } from "./environment.js";
import { Events } from "./events.js";
import type { Check, Plan, User, UserChanges, Verified } from "./models.js";
import { Audit, Invitations, OAuthClients, Usage } from "./managing.js";
import { rowsOf, tagged } from "./reading.js";
import { Accounts, Products, read, Records, Users } from "./resources.js";
import { Requests } from "./retries.js";
import type { Options } from "./transport.js";
import { Webhooks } from "./webhooks.js";

const ME = "/users/me";

/** The credential and the addresses. Give one credential, or set `PORTICO_API_KEY`. */
export interface ClientOptions extends Options {
  readonly apiKey?: string | undefined;
  /** A token that the caller manages: the client does not renew it. */
  readonly accessToken?: string | undefined;
  readonly auth?: Credential | undefined;
  /** The API's address. Default: `PORTICO_BASE_URL`, or `https://localhost:8443/v1`. */
  readonly baseUrl?: string | undefined;
  /** The authorization server's address. Default: `PORTICO_AUTH_URL` unless `baseUrl` is given, or the base with its last
   * segment replaced by `auth`. */
  readonly authUrl?: string | undefined;
}

/** Calls the API of one environment as one account. */
export class Client {
  /** The catalog. */
  readonly products: Products;
  /** The users of the environment. */
  readonly users: Users;
  /** The users' accounts. */
  readonly accounts: Accounts;
  /** Who may make themselves an account. */
  readonly invitations: Invitations;
  /** The OAuth clients. */
  readonly clients: OAuthClients;
  /** The audit log. */
  readonly audit: Audit;
  /** How many requests accounts made. */
  readonly usage: Usage;
  /** API keys: the caller's own, and for admins also those of others. */
  readonly apiKeys: ApiKeys;
  /** The events that the caller may see. */
  readonly events: Events;
  /** The webhooks, which send events to receivers. */
  readonly webhooks: Webhooks;
  readonly #access: Access;
  readonly #calls: Calls;

  /** Throws TypeError for an invalid option. */
  constructor(options: ClientOptions = {}) {
    const where = addresses(options.baseUrl, options.authUrl);
    this.#access = new Access(where, new Requests(options), chosen(options));
    this.#calls = new Calls(this.#access);
    this.products = new Products(this.#calls, "/products");
    this.users = new Users(this.#calls, "/users");
    this.accounts = new Accounts(this.#calls);
    this.invitations = new Invitations(this.#calls);
    this.clients = new OAuthClients(this.#calls);
    this.audit = new Audit(this.#calls);
    this.usage = new Usage(this.#calls);
    this.apiKeys = new ApiKeys(this.#calls, (key) => this.#access.switch(key));
    this.events = new Events(this.#calls, this.#access);
    this.webhooks = new Webhooks(this.#calls);
  }

  /** The plans that accounts can have. Needs the scope `admin`. */
  async plans(calling: Calling = {}): Promise<Plan[]> {
    return rowsOf<Plan>(await this.#calls.make("GET", "/plans", calling));
  }

  /** Asks whether a credential that a service was sent is valid, and counts the request against its account. Needs the scope
   * `verify`. */
  verify(check: Check, { signal }: Calling = {}): Promise<Verified> {
    return this.#calls.verify(check, signal);
  }

  /** The records of a kind that the server's operators have declared, such as `orders`. Throws TypeError for what is no name
   * of a kind. */
  kind<Fields extends object = Record<string, unknown>>(many: string): Records<Fields> {
    if (!/^[a-z][a-z0-9-]*$/.test(many)) throw new TypeError(`${JSON.stringify(many)} is not the name of a kind, such as orders`);
    return new Records<Fields>(this.#calls, `/${many}`);
  }

  /** The calling user. */
  me(calling?: Calling): Promise<User> {
    return read(this.#calls, ME, calling);
  }

  /** Changes the calling user's name, avatar, preferences, or password (which requires `current_password`). */
  updateMe(changes: UserChanges, { ifMatch, signal }: Changing = {}): Promise<User> {
    return tagged(this.#calls.make("PATCH", ME, { fields: changes, ifMatch, signal }));
  }

  /** Ends this client's login (`Login`) or session (`SessionLogin`), if any; the next call signs in again. Throws TypeError for
   * an API key or tokens. */
  logout({ signal }: Calling = {}): Promise<void> {
    return this.#access.end(signal);
  }
}

function chosen({ apiKey, accessToken, auth }: ClientOptions): string | Credential {
  const given = [apiKey, accessToken, auth].filter((one) => one !== undefined && one !== null);
  if (given.length > 1) throw new TypeError("give apiKey, accessToken or auth, and only one of them");
  // An empty string is not ignored: the key of the environment may be somebody else's.
  if (given[0] === "") throw new TypeError(`${apiKey === "" ? "apiKey" : "accessToken"} is empty`);
  const found = given[0] ?? variable("PORTICO_API_KEY");
  if (!found) throw new TypeError("give apiKey, accessToken or auth, or set PORTICO_API_KEY");
  return found;
}
