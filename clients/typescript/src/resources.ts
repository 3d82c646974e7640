import { at, type Calling, type Calls, type Changing, type Creating } from "./calls.js";
import { Listing } from "./listing.js";
import type {
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

/** Resources of one kind: a list has `Item`s, reading and changing one gives a `One`, making one a `Made`. */
abstract class Resources<Item extends { id: number }, One extends Tagged, Made extends Tagged, New extends object, Changes extends object, Filters> {
  /** @internal */
  constructor(
    protected readonly calls: Calls,
    protected readonly path: string,
  ) {}

  /** A list, the newest first unless the filters say otherwise; one that is null or undefined is none. Nothing is read before
   * it is asked for. */
  list(filters: Filters = {} as Filters, calling: Calling = {}): Listing<Item> {
    return new Listing(this.calls, this.path, filters as object, calling);
  }

  /** One, with its `etag`. Throws `NotFound`. */
  get(id: number, calling?: Calling): Promise<One> {
    return read(this.calls, at(this.path, id), calling);
  }

  /** Makes one. Throws `ValidationError` and, where a value that must be unique is taken, `Duplicate`. */
  create(fields: New, { idempotencyKey, signal }: Creating = {}): Promise<Made> {
    return tagged(this.calls.make("POST", this.path, { fields, idempotencyKey, signal }));
  }

  /** Changes what is given, and leaves the rest. */
  update(id: number, changes: Changes, { ifMatch, signal }: Changing = {}): Promise<One> {
    return tagged(this.calls.make("PATCH", at(this.path, id), { fields: changes, ifMatch, signal }));
  }

  /** Deletes one; `ifMatch` as in `update`. */
  delete(id: number, { ifMatch, signal }: Changing = {}): Promise<void> {
    return this.calls.done("DELETE", at(this.path, id), { ifMatch, signal });
  }
}

/** The catalog. Listed are active products unless `status` says otherwise; with `search` the most relevant first. */
export class Products extends Resources<ProductItem, Product, Product, NewProduct, ProductChanges, ProductFilters> {}

/** The people who have an account. */
export class Users extends Resources<UserItem, User, UserItem & Tagged, NewUser, UserChanges, UserFilters> {}

/** One resource, with the entity tag that it has now. */
export function read<One extends Tagged>(calls: Calls, path: string, calling?: Calling): Promise<One> {
  return tagged(calls.make("GET", path, calling));
}
