// From the upstream of an index to GET, byte for byte.

import { assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { type AgentProcess, startAgentProcess } from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

const TREE = fromFileUrl(new URL("../fixtures/index", import.meta.url));

async function filesBelow(folder: string, below = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(join(folder, below))) {
    const path = below === "" ? name : `${below}/${name}`;
    if (isDirectory) found.push(...await filesBelow(folder, path));
    else found.push(path);
  }
  return found.sort();
}

/** A web server of a folder, with an HTML page for what is not there, as static hosts have it. */
function serveTree(): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    const bytes = await Deno.readFile(TREE + pathname).catch(() => null);
    return bytes === null
      ? new Response("<h1>404</h1>", { status: 404, headers: { "content-type": "text/html" } })
      : new Response(bytes);
  });
}

async function synced(agent: AgentProcess): Promise<void> {
  await until("the index to be synced", async () => {
    const { body } = await agent.get("/agent/v1/index");
    return body.last_sync !== null;
  });
}

async function assertServed(agent: AgentProcess): Promise<void> {
  await synced(agent);
  const paths = await filesBelow(TREE);
  for (const path of paths) {
    const response = await fetch(`${agent.url}/${path}`);
    const served = new Uint8Array(await response.arrayBuffer());
    assertEquals(response.status, 200, path);
    assertEquals(response.headers.get("content-type"), "application/json", path);
    assertEquals(served, await Deno.readFile(join(TREE, path)), path);
    const etag = response.headers.get("etag") ?? "";
    const again = await fetch(`${agent.url}/${path}`, { headers: { "if-none-match": etag } });
    await again.body?.cancel();
    assertEquals(again.status, 304, path);
  }
  for (
    const path of ["aliases/lts.json", "releases/none/index.json", "releases/8_Beta/archive.json"]
  ) {
    const { status, body } = await agent.get(`/v1/distros/basalt/${path}`);
    assertEquals(status, 404, path);
    assertEquals([typeof body.message, typeof body.request_id], ["string", "string"], path);
  }
}

eachProgram(
  "an index is mirrored from a web server and served byte for byte",
  (program) =>
    withFolder(async (folder) => {
      const upstream = serveTree();
      const index = `http://127.0.0.1:${upstream.addr.port}`;
      const flags = ["--host", "simulated", "--index", index, "--allow-http-index"];
      const agent = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        await assertServed(agent);
      } finally {
        assertEquals(await agent.stop(), 0);
        await upstream.shutdown();
      }
    }),
);

eachProgram(
  "an index is mirrored from a folder, and served when the folder is gone",
  (program) =>
    withFolder(async (folder) => {
      const flags = ["--host", "simulated", "--index", TREE];
      const first = await startAgentProcess(program, `${folder}/state`, flags);
      try {
        await assertServed(first);
      } finally {
        assertEquals(await first.stop(), 0);
      }
      const gone = ["--host", "simulated", "--index", `${folder}/gone`];
      const second = await startAgentProcess(program, `${folder}/state`, gone);
      try {
        await assertServed(second);
      } finally {
        assertEquals(await second.stop(), 0);
      }
    }),
);
