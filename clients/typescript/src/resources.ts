import { at, type Calling, type Calls, type Changing, type Creating } from "./calls.js";
import { Listing } from "./listing.js";
import type {
  Account,
  AccountChanges,
  CreatedUser,
  NewProduct,
  NewUser,
  Product,
  ProductChanges,
  ProductFilters,
  ProductItem,
  Tagged,
  User,
  UserChanges,
  UserFilters,
  UserItem,
} from "./models.js";
import { tagged } from "./reading.js";

/** Resources of one kind. Lists have `Item`s, reading and changing one returns a `One`, creating one a `Made`. */
abstract class Resources<Item extends { id: number }, One extends Tagged, Made extends Tagged, New extends object, Changes extends object, Filters> {
  /** @internal */
  constructor(
    protected readonly calls: Calls,
    protected readonly path: string,
  ) {}

  /** A list, newest first unless the filters say otherwise. Filters that are null or undefined are left out. Sends no request
   * before items or a page are read. */
  list(filters: Filters = {} as Filters, calling: Calling = {}): Listing<Item> {
    return new Listing(this.calls, this.path, filters as object, calling);
  }

  /** One, with its `etag`. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<One> {
    return read(this.calls, at(this.path, id), calling);
  }

  /** Creates one. Throws `ValidationError`, and `Duplicate` if a value that must be unique is taken. */
  create(fields: New, { idempotencyKey, signal }: Creating = {}): Promise<Made> {
    return tagged(this.calls.make("POST", this.path, { fields, idempotencyKey, signal }));
  }

  /** Changes the given fields and leaves the others. To a credential that may not read what it changes, the server returns only
   * `id` and the fields given. */
  update(id: number, changes: Changes, { ifMatch, signal }: Changing = {}): Promise<One> {
    return tagged(this.calls.make("PATCH", at(this.path, id), { fields: changes, ifMatch, signal }));
  }

  /** Deletes one. `ifMatch` works as in `update`. */
  delete(id: number, { ifMatch, signal }: Changing = {}): Promise<void> {
    return this.calls.done("DELETE", at(this.path, id), { ifMatch, signal });
  }
}

/** The catalog. Lists have active products unless `status` is given, and are sorted by relevance with `search`. */
export class Products extends Resources<ProductItem, Product, Product, NewProduct, ProductChanges, ProductFilters> {}

/** A record of a kind that the server's operators have declared. */
export type KindRecord<Fields> = Fields & Tagged & { id: number; created_at: string; updated_at: string };

/** The records of a kind that the server's operators have declared; `Fields` are those of a record. */
export class Records<Fields extends object> extends Resources<
  KindRecord<Fields>,
  KindRecord<Fields>,
  KindRecord<Fields>,
  Partial<Fields>,
  Partial<Fields>,
  object
> {}

/** The users of the environment. */
export class Users extends Resources<UserItem, User, CreatedUser, NewUser, UserChanges, UserFilters> {}

/** The users' accounts: plan, suspension, and what another system knows of them. One's own can be read, all else needs the
 * scope `admin`. */
export class Accounts {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** The account of a user, with its `etag`. Throws `NotFound`. */
  get(userId: number, calling?: Calling): Promise<Account> {
    return read(this.#calls, `${at("/users", userId)}/account`, calling);
  }

  /** Changes the given fields and leaves the others. Throws `Duplicate` if another user has the `external_id`. */
  update(userId: number, changes: AccountChanges, { ifMatch, signal }: Changing = {}): Promise<Account> {
    return tagged(this.#calls.make("PATCH", `${at("/users", userId)}/account`, { fields: changes, ifMatch, signal }));
  }
}

/** One resource, with its entity tag. */
export function read<One extends Tagged>(calls: Calls, path: string, calling?: Calling): Promise<One> {
  return tagged(calls.make("GET", path, calling));
}
