// A stand-in for a server: what the library sends is kept, what it gets is written beforehand.
import { readFileSync } from "node:fs";

export const KEY = "an-api-key";
export const PLACE = "https://portico.example/v1";
export const AUTH = "https://portico.example/auth";

/** A table of the cases that every client keeps. */
export const table = (name) => JSON.parse(readFileSync(new URL(`../../cases/${name}`, import.meta.url), "utf8"));

const FAULTS = { unsent: "ECONNREFUSED", lost: "ECONNRESET", untrusted: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" };

/** An answer with a JSON body, or a fault of the connection. */
function come({ fault, status, code, details = [], data, body, text, headers }) {
  if (fault) throw new TypeError("fetch failed", { cause: Object.assign(new Error(fault), { code: FAULTS[fault] }) });
  const told = code ? { error: { code, message: "No.", details } } : (body ?? { data });
  return new Response(status === 204 ? null : (text ?? JSON.stringify(told)), { status, headers });
}

/** A `fetch` that answers one request after the other as it was told; a step may be a function of the request. */
export function scripted(...steps) {
  const left = [...steps];
  const requests = [];
  const fetch = async (url, { method, ...init }) => {
    const request = { ...init, method, url: new URL(url) };
    requests.push(request);
    await null;
    const step = left.shift();
    if (step === undefined) throw new Error(`nothing is left for ${method} ${url}`);
    return typeof step === "function" ? step(request) : come(step);
  };
  return { fetch, requests, left };
}

/** Options whose waits are noted, whose random numbers are given, and whose clock stands still until it is moved. */
export function still(draws = [], now = 1_800_000_000) {
  const waits = [];
  const clock = () => clock.now;
  clock.now = now;
  const left = [...draws];
  return { waits, clock, random: () => left.shift() ?? 0, sleep: async (seconds) => void waits.push(seconds) };
}

/** What a promise is rejected with. */
export async function rejected(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it was not rejected");
}

/** The same name as this library spells it. */
export const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
