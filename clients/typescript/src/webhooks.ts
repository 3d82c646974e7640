import { at, type Calling, type Calls, type Changing, type Creating } from "./calls.js";
import { Listing } from "./listing.js";
import type { Delivery, DeliveryFilters, NewWebhook, Webhook, WebhookChanges, WebhookWithSecret } from "./models.js";
import { listOf, tagged, taggedOf } from "./reading.js";
import { read } from "./resources.js";

const PATH = "/webhooks";

/** The receivers that are told of events. */
export class Webhooks {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** All webhooks, the newest first. */
  async list(calling?: Calling): Promise<Webhook[]> {
    return listOf<{ data: Webhook[] }>(await this.#calls.make("GET", PATH, calling)).data;
  }

  /** One webhook. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<Webhook> {
    return read(this.#calls, at(PATH, id), calling);
  }

  /** Makes a webhook, which is told of events from then on; `idempotencyKey` as in `Products.create`. Throws `Conflict` where
   * there are 20, `SecretLost` where the answer was lost. */
  create(fields: NewWebhook, { idempotencyKey, signal }: Creating = {}): Promise<WebhookWithSecret> {
    return this.#calls.secret<WebhookWithSecret>(PATH, { fields, idempotencyKey, signal }, lost, taggedOf);
  }

  /** Changes what is given, and leaves the rest. */
  update(id: number, changes: WebhookChanges, { ifMatch, signal }: Changing = {}): Promise<Webhook> {
    return tagged(this.#calls.make("PATCH", at(PATH, id), { fields: changes, ifMatch, signal }));
  }

  /** Deletes a webhook: it is told of nothing any more; `ifMatch` as in `update`. */
  delete(id: number, { ifMatch, signal }: Changing = {}): Promise<void> {
    return this.#calls.done("DELETE", at(PATH, id), { ifMatch, signal });
  }

  /** Gives a webhook another secret; for 24 hours the one before signs too. Throws `SecretLost` where the answer was lost. */
  rotateSecret(id: number, calling: Calling = {}): Promise<WebhookWithSecret> {
    return this.#calls.secret<WebhookWithSecret>(`${at(PATH, id)}/rotate-secret`, calling, lost, taggedOf);
  }

  /** Sends a webhook an event of type `ping`, once. Throws `Conflict` where it is disabled. */
  test(id: number, calling?: Calling): Promise<void> {
    return this.#calls.done("POST", `${at(PATH, id)}/test`, calling);
  }

  /** What a webhook was and is to be sent, the newest first. */
  deliveries(id: number, filters: DeliveryFilters = {}, calling: Calling = {}): Listing<Delivery> {
    return new Listing(this.#calls, `${at(PATH, id)}/deliveries`, filters, calling);
  }

  /** Sends the event of a delivery once more, as a new one. Throws `Gone` where it is no longer kept, `Conflict` where the
   * webhook is disabled. */
  redeliver(id: number, deliveryId: number, calling?: Calling): Promise<void> {
    return this.#calls.done("POST", `${at(`${at(PATH, id)}/deliveries`, deliveryId)}/redeliver`, calling);
  }
}

function lost({ id }: Webhook): string {
  return `webhook ${id} has a new secret, which was lost on the way: rotate it`;
}
