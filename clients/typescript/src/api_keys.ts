import { at, type Calling, type Calls, type Creating } from "./calls.js";
import { Listing } from "./listing.js";
import type { ApiKey, ApiKeyFilters, ApiKeyWithSecret, NewApiKey, RotatedKey } from "./models.js";

const PATH = "/api-keys";

/** API keys: the caller's own, and for admins also those of others. */
export class ApiKeys {
  readonly #calls: Calls;
  readonly #switch: (key: string) => void;

  /** @internal */
  constructor(calls: Calls, use: (key: string) => void) {
    this.#calls = calls;
    this.#switch = use;
  }

  /** The caller's keys or another user's, newest first, including expired and revoked ones. */
  list(filters: ApiKeyFilters = {}, calling: Calling = {}): Listing<ApiKey> {
    return new Listing(this.#calls, PATH, filters, calling);
  }

  /** One key. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<ApiKey> {
    return this.#calls.data("GET", at(PATH, id), calling);
  }

  /** Creates a key, which is in the `key` of the result. `idempotencyKey` works as in `Products.create`. Throws `SecretLost` if
   * the response was lost. */
  create(fields: NewApiKey, { idempotencyKey, signal }: Creating = {}): Promise<ApiKeyWithSecret> {
    const lost = ({ id }: ApiKey) => `the key ${id} was created, but the response was lost: revoke it`;
    return this.#calls.secret<ApiKeyWithSecret>(PATH, { fields, idempotencyKey, signal }, lost);
  }

  /** Revokes a key for good, from its next request on. */
  revoke(id: number, calling?: Calling): Promise<void> {
    return this.#calls.done("DELETE", at(PATH, id), calling);
  }

  /** Replaces the client's key. The new key is in the `key` of the result; the old one works for 24 more hours. With `switch`,
   * this client uses the new one immediately.
   *
   * Throws `Conflict` if the key was rotated before, `SecretLost` if the response was lost.
   */
  async rotate({ switch: use = false, signal }: Calling & { readonly switch?: boolean | undefined } = {}): Promise<RotatedKey> {
    const lost = ({ hint }: RotatedKey) => `the key was rotated, but its successor ${hint} was lost on the way`;
    const rotated = await this.#calls.secret(`${PATH}/rotate`, { signal }, lost);
    if (use) this.#switch(rotated.key);
    return rotated;
  }
}
