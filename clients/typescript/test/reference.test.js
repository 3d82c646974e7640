// The reference is what the comments say.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as portico from "@portico/client";
import { reference } from "../reference.js";

const kept = readFileSync(new URL("../docs/reference.md", import.meta.url), "utf8");

test("the reference is what the comments make", () => assert.equal(kept, reference(), "run: node reference.js"));

test("the reference has everything that can be imported", () => {
  for (const name of Object.keys(portico)) assert.match(kept, new RegExp(`^(### ${name}\\b|\\*\\*\`${name}\`)`, "m"));
});
