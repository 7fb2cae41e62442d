// A program of somebody else's: the official TypeScript client asks for tools, calls them, and prints what it was told.
// Its one argument is JSON: {url, headers} for streamable HTTP, or {command, args, env} for stdio.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { url, headers, command, args, env } = JSON.parse(process.argv[2]);
const transport = url
  ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
  : new StdioClientTransport({ command, args, env });
const client = new Client({ name: "an-outside-peer", version: "1.0.0" });

async function call(name, given) {
  try {
    // The client checks structured content against the tool's output schema.
    const { structuredContent, content, isError } = await client.callTool({ name, arguments: given });
    return { structured: structuredContent ?? null, text: content[0].text, isError: isError ?? false };
  } catch (error) {
    return { code: error.code, data: error.data ?? null };
  }
}

await client.connect(transport);
const told = {
  server: client.getServerVersion(),
  tools: (await client.listTools()).tools,
  remembered: await call("remember_this", { text: "The valve costs 3 euros.", key: "valve" }),
  proposed: await call("propose_memory", { text: "The valve may get cheaper." }),
  pack: await call("get_context", { task: "What does the valve cost?", session_id: "chat" }),
  markdown: await call("get_context", { task: "valve", format: "markdown" }),
  found: await call("query_memory", { find: "valve" }),
  expanded: await call("expand", { ref: "note/valve" }),
  searched: await call("search", { query: "valve" }),
  fetched: await call("fetch", { id: "note/valve" }),
  absent: await call("fetch", { id: "absent" }),
  wrong: await call("query_memory", { ask: "a", find: "b" }),
  unknown: await call("shell", { command: "ls" }),
};
await client.close();
console.log(JSON.stringify(told));
