// Readers of the events that take too little, over each way to the agent: they are cut, and nothing between
// two events is left out when they come back.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { createApp } from "../../src/http/app.ts";
import { listen } from "../../src/http/server.ts";
import { readTlsIdentity } from "../../src/http/listen/listener.ts";
import { LISTENING } from "../support/listening.ts";
import { T0 } from "../support/job.ts";
import { programTest } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { readEvents } from "./event_reader.ts";
import { type HttpAgent, newJob, withHttpAgent } from "./http_agent.ts";
import { makeCertificate } from "./tls_files.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Much more than the agent's buffer, and those of the system, take. */
const LINES = 500;
const LINE_CHARS = 60_000;

/** Does not read while many events come; then reads what it got, and comes back. */
async function fallBehind(
  agent: HttpAgent,
  url: string,
  client: Deno.HttpClient | undefined,
): Promise<void> {
  const job = await newJob(agent);
  await using slow = await readEvents(url, "?kind=log", {}, client);
  await slow.begun();
  const cut = () => agent.log.filter(({ why }) => String(why).includes("bytes wait for it")).length;
  const before = cut();
  const text = "x".repeat(LINE_CHARS);
  for (let line = 0; line < LINES; line++) {
    await agent.store.info.append(job, { message: text, line }, T0, NO_LIMIT);
  }
  await until("the cut", () => cut() > before);
  const read: number[] = [];
  await assertRejects(async () => {
    for (let event = await slow.next(); event !== undefined; event = await slow.next()) {
      read.push(event.id);
    }
    // An end in order would look as if nothing else had happened.
    return "ended in order";
  });
  assert(read.length < LINES, `${read.length} lines were read`);
  const headers = { "last-event-id": String(read.at(-1) ?? slow.id) };
  await using again = await readEvents(url, "?kind=log", headers, client);
  while (read.length < LINES) read.push((await again.next())?.id ?? 0);
  const { events } = await agent.store.events.after(0, 10 * LINES, { job: [job], kind: ["log"] });
  const page = [...events.map(({ seq }) => seq)];
  // A page has a bound of bytes too: its events are the first of those that were read.
  assertEquals(read.slice(0, page.length), page);
  assertEquals(new Set(read).size, LINES);
  assert(read.every((id, at) => at === 0 || id === (read[at - 1] ?? 0) + 1), "one is left out");
}

Deno.test("a slow reader over HTTP is cut, and gets every event when it reconnects", () =>
  withHttpAgent((agent) => fallBehind(agent, agent.url, undefined)));

for (const [name, http2] of [["HTTP/1.1", false], ["HTTP/2", true]] as const) {
  programTest(
    "openssl",
    `a slow reader over TLS and ${name} is cut, and has every event when it comes back`,
    () =>
      withFolder((folder) =>
        withHttpAgent(async (agent) => {
          const paths = await makeCertificate(folder, "events");
          const tls = await readTlsIdentity(paths);
          const tcp = { hostname: "127.0.0.1", port: 0 };
          const app = createApp(agent.context);
          const server = await listen(app, {
            ...LISTENING,
            tcp,
            tls,
          });
          const caCerts = [await Deno.readTextFile(paths.certPath)];
          const client = Deno.createHttpClient({ caCerts, http2, http1: !http2 });
          try {
            await fallBehind(agent, server.urls[0] ?? "", client);
          } finally {
            client.close();
            await server.shutdown(100);
          }
        })
      ),
  );
}
