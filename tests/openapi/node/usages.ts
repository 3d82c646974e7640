// What callers write with the types that openapi-typescript makes of the documents by its defaults.
// A line below `@ts-expect-error` must not be accepted.
import type { components, operations, paths } from "./api";
import type { operations as AuthOperations, paths as AuthPaths } from "./auth";

type Body<O extends { requestBody?: unknown }> =
  NonNullable<O["requestBody"]> extends { content: { "application/json": infer B } } ? B : never;
type Answer<O extends { responses: unknown }, S extends keyof O["responses"]> =
  O["responses"][S] extends { content: { "application/json": infer B } } ? B : never;

export const least: Body<operations["create_product"]> = { name: "Lamp", category: "light", price: 12.5 };
// @ts-expect-error a product needs a price
export const priceless: Body<operations["create_product"]> = { name: "Lamp", category: "light" };
export const full: components["schemas"]["CreateProduct"] = {
  ...least,
  currency: "EUR",
  status: "active",
  stock_quantity: 3,
  images: [{ url: "https://example.com/lamp.jpg" }],
  metadata: { colour: "brass" },
};
// @ts-expect-error unknown fields are refused
export const typo: Body<operations["create_product"]> = { ...least, prize: 12.5 };
// @ts-expect-error so is a status that there is not
export const lost: Body<operations["create_product"]> = { ...least, status: "lost" };

export const nothing: Body<operations["change_product"]> = {};
export const one: Body<operations["change_product"]> = { status: "archived" };
export const nobody: Body<operations["change_user"]> = {};
export const person: Body<operations["create_user"]> = { name: "Ada", email: "a@example.com", password: "Analytical1" };
export const key: Body<operations["create_api_key"]> = { name: "CI", type: "live" };
export const webhook: Body<operations["create_webhook"]> = { url: "https://example.com/hook", types: ["*"] };
export const email: Body<AuthOperations["login"]> = { email: "a@example.com", password: "Analytical1" };

export function show(
  made: Answer<operations["create_product"], 201>,
  list: Answer<operations["list_products"], 200>,
  refused: Answer<operations["create_product"], 422>,
  tokens: Answer<AuthOperations["token"], 200>,
): [string, number, boolean, string, Record<string, string>, number, string, string, number] {
  const { data } = made;
  const [image] = data.images;
  const [first] = list.data;
  const code: "VALIDATION_ERROR" | undefined = refused.error.code as "VALIDATION_ERROR";
  return [
    data.currency,
    data.stock_quantity,
    data.in_stock,
    image?.alt ?? first?.description ?? "",
    data.metadata,
    list.pagination.total_items,
    refused.error.message + code,
    tokens.access_token + tokens.refresh_token,
    tokens.expires_in,
  ];
}

// Each document has what is at its own address, and nothing else.
export const own: keyof paths = "/products/{id}";
export const beside: keyof AuthPaths = "/token";
// @ts-expect-error that is the authorization server's
export const strange: keyof paths = "/token";

// Most answers do without what says that a total is not exact.
type Pages = Answer<operations["list_products"], 200>["pagination"];
export const seldom: undefined extends Pages["total_is_exact"] ? true : false = true;
