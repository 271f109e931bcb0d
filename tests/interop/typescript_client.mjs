// The official TypeScript client: what it sees of a server that changes while it is used, as JSON.
//
//     node typescript_client.mjs URL
//     node typescript_client.mjs COMMAND ARGUMENT...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  ElicitRequestSchema,
  ProgressNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [target, ...args] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, stderr: "inherit" });

const client = new Client({ name: "interop", version: "1" }, { capabilities: { elicitation: {} } });
const seen = { progress: [], questions: [] };

client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  seen.questions.push(params.message);
  return { action: "accept", content: { confirmed: true } };
});
// Not `onprogress`: it misses what arrives in one chunk with the response, because responses are handled first.
client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => {
  seen.progress.push([params.progressToken, params.progress, params.total]);
});
const changed = new Promise((resolve, reject) => {
  client.setNotificationHandler(ToolListChangedNotificationSchema, resolve);
  setTimeout(reject, 20_000, new Error("the client was not told that the tools have changed")).unref();
});

async function call(name, args, meta) {
  const result = await client.callTool({ name, arguments: args, _meta: meta });
  if (result.isError) throw new Error(result.content[0].text);
  return result.structuredContent;
}

async function toolNames() {
  return (await client.listTools()).tools.map((tool) => tool.name);
}

await client.connect(transport);

const counts = ["9780141439518", "9780141182711", "9780141439549"].map((isbn) => ({ isbn, counted: 1 }));
await call("reports.stocktake", { counts }, { progressToken: "stocktake" });

const order = { order_id: "B-1002", amount: { kind: "whole" }, reason: "Arrived damaged." };
seen.refund = await call("orders.refund", order);

seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
seen.page = (await client.readResource({ uri: seen.resources[0] })).contents[0].text;

seen.before = await toolNames();
await call("shop.open_branch", {});
await changed;
seen.after = await toolNames();

await client.close();
console.log(JSON.stringify(seen));
