// Following the events of an agent that goes silent.

import { assertEquals, assertMatch } from "@std/assert";
import { events } from "../../src/cli/client/events.ts";
import { openClient } from "../../src/cli/client/client.ts";
import { messageOf } from "../../src/domain/error.ts";

Deno.test("a connection that brings nothing is broken off, and the command says why", async () => {
  const open = new AbortController();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal: open.signal, onListen: () => {} },
    () => new Response(new ReadableStream(), { headers: { "content-type": "text/event-stream" } }),
  );
  const base = `http://127.0.0.1:${server.addr.port}`;
  const client = openClient({ address: { kind: "url", base } });
  const stop = new AbortController();
  const said: string[] = [];
  const options = {
    signal: stop.signal,
    nowMs: () => 0,
    silentMs: 20,
    away: (broken: unknown) => {
      said.push(messageOf(broken));
      stop.abort();
    },
  };
  for await (const event of events(client, {}, options)) assertEquals(event, undefined);
  assertMatch(said.join(), /^it has sent nothing for 0\.02 seconds$/);
  open.abort();
  await server.finished;
});
