/** JSON Web Tokens as Portico signs them: RS256 and nothing else (RFC 7519, RFC 8725). */

import type { ProtectedHeaderParameters } from "jose";
import type { Claims } from "./claims.js";
import { InvalidToken } from "./errors.js";

const ALGORITHM = "RS256";
const LONGEST = 16_384;
const SMALLEST_KEY_BITS = 2048;
const BITS_PER_CHARACTER = 6; // A key set writes numbers in base64url.

/** Loaded when a token is verified, so that pages that verify none do not load it. */
const jose = () => import("jose");

/** The id of the key that a token says it is signed with. Throws `InvalidToken`.
 *
 * `kind` is the `typ` that it must have. Nothing else in the header is trusted, such as a key or the URL of one.
 */
export async function keyId(token: string, kind?: string): Promise<string> {
  const { alg, crit, kid, typ } = headerOf(token, await jose());
  if (alg !== ALGORITHM) throw new InvalidToken(`it is not signed by ${ALGORITHM}`);
  if (kind !== undefined && typ !== kind) throw new InvalidToken(`it is not of the type ${kind}`);
  if (crit !== undefined) throw new InvalidToken("it has an unknown crit header");
  if (typeof kid !== "string") throw new InvalidToken("it does not name its key");
  return kid;
}

function headerOf(token: string, { decodeProtectedHeader }: typeof import("jose")): ProtectedHeaderParameters {
  try {
    if (token.length <= LONGEST && token.split(".").length === 3) return decodeProtectedHeader(token);
  } catch {
    // Reported below.
  }
  throw new InvalidToken("it is not a signed JSON Web Token");
}

/** The keys of a key set (RFC 7517) that can verify tokens. Others are left out. */
export async function publicKeys(keys: unknown[]): Promise<Map<string, CryptoKey>> {
  const { importJWK } = await jose();
  const found = new Map<string, CryptoKey>();
  for (const one of keys) {
    const { kid, kty, n, e, use = "sig", alg = ALGORITHM } = (one ?? {}) as Record<string, unknown>;
    const usable = kty === "RSA" && use === "sig" && alg === ALGORITHM && typeof kid === "string";
    if (!usable || typeof n !== "string" || typeof e !== "string") continue;
    if (n.length * BITS_PER_CHARACTER < SMALLEST_KEY_BITS) continue;
    const key = await importJWK({ kty, n, e }, ALGORITHM).catch(() => undefined);
    if (key && !(key instanceof Uint8Array)) found.set(kid, key);
  }
  return found;
}

/** What to check a token against. `now` is in Unix seconds. */
interface Expected {
  readonly issuer: string;
  readonly audience: string;
  readonly now: number;
}

/** The claims of a token, after checking its signature, `exp`, `nbf`, `iss` and `aud`. Throws `InvalidToken`. */
export async function verified(token: string, key: CryptoKey, { issuer, audience, now }: Expected): Promise<Claims> {
  const { jwtVerify } = await jose();
  const expected = { algorithms: [ALGORITHM], issuer, audience, requiredClaims: ["exp"], currentDate: new Date(now * 1000) };
  const { payload } = await jwtVerify(token, key, expected).catch((cause: Error) => {
    throw new InvalidToken(cause.message, { cause });
  });
  const { sub: subject, exp = NaN, amr, acr, name, role } = payload;
  if (typeof subject !== "string") throw new InvalidToken("it has no subject");
  const expiresAt = new Date(exp * 1000);
  if (Number.isNaN(expiresAt.getTime())) throw new InvalidToken("its exp is not a time");
  return {
    subject,
    userId: Number(subject),
    expiresAt,
    name: textOf(name),
    role: textOf(role),
    amr: Array.isArray(amr) ? amr : [],
    acr: textOf(acr),
    all: payload,
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
