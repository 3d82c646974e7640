import { at, type Calling, type Calls, type Creating } from "./calls.js";
import { Listing } from "./listing.js";
import type { ApiKey, ApiKeyFilters, ApiKeyWithSecret, NewApiKey, RotatedKey } from "./models.js";

const PATH = "/api-keys";

/** API keys: the caller's own, and others' for admins. */
export class ApiKeys {
  readonly #calls: Calls;
  readonly #switch: (key: string) => void;

  /** @internal */
  constructor(calls: Calls, use: (key: string) => void) {
    this.#calls = calls;
    this.#switch = use;
  }

  /** One's own keys or another user's, the newest first, those that have ended too. */
  list(filters: ApiKeyFilters = {}, calling: Calling = {}): Listing<ApiKey> {
    return new Listing(this.#calls, PATH, filters, calling);
  }

  /** One key. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<ApiKey> {
    return this.#calls.data("GET", at(PATH, id), calling);
  }

  /** Makes a key, which is in the answer's `key`; `idempotencyKey` as in `Products.create`. Throws `SecretLost` where the
   * answer was lost. */
  create(fields: NewApiKey, { idempotencyKey, signal }: Creating = {}): Promise<ApiKeyWithSecret> {
    const lost = ({ id }: ApiKey) => `the key ${id} was made, and was lost on the way: revoke it`;
    return this.#calls.secret<ApiKeyWithSecret>(PATH, { fields, idempotencyKey, signal }, lost);
  }

  /** Ends a key, from its next request on and for good. */
  revoke(id: number, calling?: Calling): Promise<void> {
    return this.#calls.done("DELETE", at(PATH, id), calling);
  }

  /** Replaces the key: the new one is in the answer's `key`, the old one works for 24 hours more. With `switch`, this client
   * uses the new one at once.
   *
   * Throws `Conflict` for a key that was rotated before, `SecretLost` where the answer was lost.
   */
  async rotate({ switch: use = false, signal }: Calling & { readonly switch?: boolean | undefined } = {}): Promise<RotatedKey> {
    const lost = ({ hint }: RotatedKey) => `the key was rotated, and its successor ${hint} was lost on the way`;
    const rotated = await this.#calls.secret(`${PATH}/rotate`, { signal }, lost);
    if (use) this.#switch(rotated.key);
    return rotated;
  }
}
