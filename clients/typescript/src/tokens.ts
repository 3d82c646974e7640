import type { OAuthTokens } from "./credentials.js";
import { decoded, unexpected } from "./reading.js";
import type { components } from "./schema/auth.js";
import type { Answer, Request } from "./transport.js";

const LONGEST_LIFE_SECONDS = 2 ** 32; // The longest lifetime that is accepted for a token: longer ones overflow dates.

type Found = components["schemas"]["LoginTokens"] & Partial<components["schemas"]["IssuedTokens"]>;

/** A request to an endpoint of the authorization server. The client is authenticated in the body (RFC 6749 §2.3.1). */
export function tokenRequest(
  url: string,
  { clientId, clientSecret }: Pick<OAuthTokens, "clientId" | "clientSecret">,
  fields: Readonly<Record<string, string>>,
): Request {
  const form = new URLSearchParams({ ...fields, client_id: clientId });
  if (clientSecret !== undefined) form.set("client_secret", clientSecret);
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  return { method: "POST", url, headers, body: form.toString() };
}

/** Whether a header can carry a token. */
export function isSendable(token: string): boolean {
  return /^[!-~]+$/.test(token);
}

/** The members of a token response, checked. Throws `UnexpectedAnswer`. */
export function tokensOf(answer: Answer): Found {
  const found = decoded<Partial<Found> | null>(answer);
  const known =
    typeof found?.access_token === "string" &&
    isSendable(found.access_token) &&
    Number.isInteger(found.expires_in) &&
    Math.abs(found.expires_in as number) < LONGEST_LIFE_SECONDS &&
    ["string", "undefined"].includes(typeof found.refresh_token) &&
    String(found.token_type).toLowerCase() === "bearer";
  if (!known) throw unexpected(answer);
  return found as Found;
}

/** The tokens of a response of the token endpoint, for the client that `held` names. `now` is in Unix seconds. */
export function granted(answer: Answer, held: OAuthTokens, now: number): OAuthTokens {
  const found = tokensOf(answer);
  return held.with({
    accessToken: found.access_token,
    refreshToken: found.refresh_token ?? held.refreshToken,
    expiresAt: new Date((now + found.expires_in) * 1000),
    scopes: found.scope === undefined ? held.scopes : found.scope.split(" ").filter(Boolean),
  });
}
