import { at, type Calling, type Calls, type Changing, type Creating } from "./calls.js";
import { Listing } from "./listing.js";
import type { Delivery, DeliveryFilters, NewWebhook, Webhook, WebhookChanges, WebhookWithSecret } from "./models.js";
import { listOf, tagged, taggedOf } from "./reading.js";
import { read } from "./resources.js";

const PATH = "/webhooks";

/** The webhooks, which send events to receivers. */
export class Webhooks {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** All webhooks, newest first. */
  async list(calling?: Calling): Promise<Webhook[]> {
    return listOf<{ data: Webhook[] }>(await this.#calls.make("GET", PATH, calling)).data;
  }

  /** One webhook. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<Webhook> {
    return read(this.#calls, at(PATH, id), calling);
  }

  /** Creates a webhook, which is sent events from then on. `idempotencyKey` works as in `Products.create`. Throws `Conflict` if
   * there are 20 webhooks already, `SecretLost` if the response was lost. */
  create(fields: NewWebhook, { idempotencyKey, signal }: Creating = {}): Promise<WebhookWithSecret> {
    return this.#calls.secret<WebhookWithSecret>(PATH, { fields, idempotencyKey, signal }, lost, taggedOf);
  }

  /** Changes the given fields and leaves the others. */
  update(id: number, changes: WebhookChanges, { ifMatch, signal }: Changing = {}): Promise<Webhook> {
    return tagged(this.#calls.make("PATCH", at(PATH, id), { fields: changes, ifMatch, signal }));
  }

  /** Deletes a webhook and ends its deliveries. `ifMatch` works as in `update`. */
  delete(id: number, { ifMatch, signal }: Changing = {}): Promise<void> {
    return this.#calls.done("DELETE", at(PATH, id), { ifMatch, signal });
  }

  /** Gives a webhook a new secret; for 24 hours the old one signs too. Throws `SecretLost` if the response was lost. */
  rotateSecret(id: number, calling: Calling = {}): Promise<WebhookWithSecret> {
    return this.#calls.secret<WebhookWithSecret>(`${at(PATH, id)}/rotate-secret`, calling, lost, taggedOf);
  }

  /** Sends a webhook an event of type `ping`, once. Throws `Conflict` if it is disabled. */
  test(id: number, calling?: Calling): Promise<void> {
    return this.#calls.done("POST", `${at(PATH, id)}/test`, calling);
  }

  /** The deliveries of a webhook, newest first, including pending ones. */
  deliveries(id: number, filters: DeliveryFilters = {}, calling: Calling = {}): Listing<Delivery> {
    return new Listing(this.#calls, `${at(PATH, id)}/deliveries`, filters, calling);
  }

  /** Sends the event of a delivery again, as a new delivery. Throws `Gone` if the event is no longer kept, `Conflict` if the
   * webhook is disabled. */
  redeliver(id: number, deliveryId: number, calling?: Calling): Promise<void> {
    return this.#calls.done("POST", `${at(`${at(PATH, id)}/deliveries`, deliveryId)}/redeliver`, calling);
  }
}

function lost({ id }: Webhook): string {
  return `webhook ${id} has a new secret, but the response was lost: rotate it`;
}
