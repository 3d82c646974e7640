// A client of the revision 2026-07-28, which it finds out by itself.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

import { walk } from "./walk.js";

await walk(new Client({ name: "tests", version: "1" }, { versionNegotiation: { mode: "auto" } }), StreamableHTTPClientTransport);
