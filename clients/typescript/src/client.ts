import { Access } from "./access.js";
import { ApiKeys } from "./api_keys.js";
import { type Calling, Calls, type Changing } from "./calls.js";
import type { Credential } from "./credentials.js";
import { addresses, variable } from "./environment.js";
import { Events } from "./events.js";
import type { User, UserChanges } from "./models.js";
import { tagged } from "./reading.js";
import { Products, read, Users } from "./resources.js";
import { Requests } from "./retries.js";
import type { Options } from "./transport.js";
import { Webhooks } from "./webhooks.js";

const ME = "/users/me";

/** Who calls, and where: one way to sign in, else the key in `PORTICO_API_KEY`. */
export interface ClientOptions extends Options {
  readonly apiKey?: string | undefined;
  /** A token that somebody else looks after: it is not renewed. */
  readonly accessToken?: string | undefined;
  readonly auth?: Credential | undefined;
  /** The API's address; else `PORTICO_BASE_URL`, else `https://localhost:8443/v1`. */
  readonly baseUrl?: string | undefined;
  /** That of the authorization server; else, unless `baseUrl` is given, `PORTICO_AUTH_URL`; else `auth` in the place of the
   * base's last part. */
  readonly authUrl?: string | undefined;
}

/** Calls the API of one environment as one account. */
export class Client {
  /** The catalog. */
  readonly products: Products;
  /** The people who have an account. */
  readonly users: Users;
  /** API keys: the caller's own, and others' for admins. */
  readonly apiKeys: ApiKeys;
  /** What has happened, as far as the caller may see it. */
  readonly events: Events;
  /** The receivers that are told of events. */
  readonly webhooks: Webhooks;
  readonly #access: Access;
  readonly #calls: Calls;

  /** Throws TypeError where an option is impossible. */
  constructor(options: ClientOptions = {}) {
    const where = addresses(options.baseUrl, options.authUrl);
    this.#access = new Access(where, new Requests(options), chosen(options));
    this.#calls = new Calls(this.#access);
    this.products = new Products(this.#calls, "/products");
    this.users = new Users(this.#calls, "/users");
    this.apiKeys = new ApiKeys(this.#calls, (key) => this.#access.switch(key));
    this.events = new Events(this.#calls, this.#access);
    this.webhooks = new Webhooks(this.#calls);
  }

  /** The calling user. */
  me(calling?: Calling): Promise<User> {
    return read(this.#calls, ME, calling);
  }

  /** Changes the calling user: name, avatar, preferences, and the password together with `current_password`. */
  updateMe(changes: UserChanges, { ifMatch, signal }: Changing = {}): Promise<User> {
    return tagged(this.#calls.make("PATCH", ME, { fields: changes, ifMatch, signal }));
  }

  /** Ends the login (`Login`) or session (`SessionLogin`) that this client has, if any; the next call signs in again. Throws
   * TypeError for an API key and tokens. */
  logout({ signal }: Calling = {}): Promise<void> {
    return this.#access.end(signal);
  }
}

function chosen({ apiKey, accessToken, auth }: ClientOptions): string | Credential {
  const given = [apiKey, accessToken, auth].filter((one) => one !== undefined && one !== null);
  if (given.length > 1) throw new TypeError("give apiKey, accessToken or auth, and only one of them");
  // Never taken for none: the key of the environment is somebody else's.
  if (given[0] === "") throw new TypeError(`${apiKey === "" ? "apiKey" : "accessToken"} is empty`);
  const found = given[0] ?? variable("PORTICO_API_KEY");
  if (!found) throw new TypeError("give apiKey, accessToken or auth, or set PORTICO_API_KEY");
  return found;
}
