// A client of the revision 2025-11-25.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { walk } from "./walk.js";

await walk(new Client({ name: "tests", version: "1" }), StreamableHTTPClientTransport);
