// Errors are printed with the names that the reference has, whatever a bundler calls their classes.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { Client } from "@portico/client";
import { rejected, scripted, still } from "./scripted.js";

/** A copy of the library whose errors have classes with short names, as minifiers make them. */
function shortened(place) {
  cpSync(new URL("../dist", import.meta.url), place, { recursive: true });
  writeFileSync(join(place, "package.json"), '{"type": "module"}');
  const code = readFileSync(join(place, "errors.js"), "utf8");
  const names = [...code.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  let short = code.replaceAll("export class", "class");
  names.forEach((name, number) => (short = short.replace(new RegExp(`\\b${name}\\b`, "g"), `e${number}`)));
  const exported = names.map((name, number) => `e${number} as ${name}`);
  writeFileSync(join(place, "errors.js"), `${short}\nexport { ${exported.join(", ")} };\n`);
}

test("an error has its own name also where a bundler has shortened that of its class", async () => {
  const place = mkdtempSync(join(tmpdir(), "shortened-"));
  try {
    shortened(place);
    const { Client, NotFound } = await import(pathToFileURL(join(place, "index.js")).href);
    const { fetch } = scripted({ status: 404, code: "RESOURCE_NOT_FOUND" });
    const error = await rejected(new Client({ apiKey: "an-api-key", fetch, ...still() }).me());
    assert.ok(error instanceof NotFound);
    assert.equal(error.name, "NotFound");
    assert.equal(String(error), "NotFound: 404 RESOURCE_NOT_FOUND: No.");
    class Missing extends NotFound {}
    assert.equal(new Missing(404, "", "No.").name, "Missing");
  } finally {
    rmSync(place, { recursive: true });
  }
});

test("an error of something in between is printed without a code", async () => {
  const { fetch } = scripted({ status: 403, text: "<html>" });
  const error = await rejected(new Client({ apiKey: "an-api-key", fetch, ...still() }).me());
  assert.match(String(error), /^APIError: 403: /);
});
