// The reference is what the comments say.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as portico from "@portico/client";
import { reference } from "../reference.js";

const text = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const kept = text("../docs/reference.md");

test("the reference is what the comments make", () => assert.equal(kept, reference(), "run: node reference.js"));

test("the reference has everything that can be imported", () => {
  const types = [...text("../src/index.ts").matchAll(/^export type \{([^}]+)\}/gm)].flatMap(([, names]) => names.split(","));
  for (const name of [...Object.keys(portico), ...types.map((one) => one.trim())]) {
    assert.match(kept, new RegExp(`^(### ${name}\\b|\\*\\*\`${name}\`)`, "m"));
  }
});
