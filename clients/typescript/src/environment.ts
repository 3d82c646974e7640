/** The service's addresses: arguments or, where there is one, the environment.
 *
 * | argument | variable | default |
 * |---|---|---|
 * | `apiKey` | `PORTICO_API_KEY` | an error |
 * | `baseUrl` | `PORTICO_BASE_URL` | `https://localhost:8443/v1` |
 * | `authUrl` | `PORTICO_AUTH_URL`, unless `baseUrl` is given | `baseUrl` with its last segment replaced by `auth` |
 *
 * Node trusts its built-in authorities and those in the file that `NODE_EXTRA_CA_CERTS` names when it starts.
 */

const DEFAULT_BASE_URL = "https://localhost:8443/v1";

/** The addresses of the API and its authorization server, without trailing slashes. */
export interface Addresses {
  readonly base: string;
  readonly auth: string;
}

/** A variable of the environment, or undefined if it is not set or empty. */
export function variable(name: string): string | undefined {
  return (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env?.[name] || undefined;
}

/** The addresses to use. Throws TypeError for one that is not https. */
export function addresses(baseUrl: string | undefined, authUrl: string | undefined): Addresses {
  const base = address(baseUrl ?? variable("PORTICO_BASE_URL") ?? DEFAULT_BASE_URL);
  const known = authUrl ?? (baseUrl === undefined ? variable("PORTICO_AUTH_URL") : undefined); // It may belong to another base.
  return { base, auth: address(known ?? new URL("../auth", `${base}/`).href) };
}

/** The authorization server's address, without the API's. Throws as `addresses` does. */
export function authAddress(authUrl: string | undefined): string {
  const known = authUrl ?? variable("PORTICO_AUTH_URL");
  return known === undefined ? addresses(undefined, undefined).auth : address(known);
}

function address(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  // The service refuses plain HTTP, but by then the credential would have leaked.
  if (url?.protocol !== "https:") throw new TypeError(`${text} is not an https:// address`);
  if (url.username || url.password || text.includes("?") || text.includes("#")) {
    throw new TypeError("an address has no user, query or fragment");
  }
  return text.replace(/\/+$/, "");
}
