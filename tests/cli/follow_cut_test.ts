// Following a job over a connection that is cut again and again, in the middle of events too.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { claimAll, endTask, newJob, withHttpAgent } from "../http/http_agent.ts";
import { until } from "../support/until.ts";
import { screenFor } from "./screen.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Bytes of events that one connection brings; an event of the test has some 300. */
const CUT_BYTES = 1_500;
const LINES = 25;

const DECODER = new TextDecoder();

/** A way to an agent that cuts each stream of events, and notes what it was asked. */
interface Cutting extends AsyncDisposable {
  readonly url: string;
  /** First lines of requests, and `Last-Event-ID` where there was one. */
  readonly asked: { readonly line: string; readonly id: string | undefined }[];
}

function cutting(port: number): Cutting {
  const asked: Cutting["asked"] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open = new Set<Deno.Conn>();
  const close = (...both: Deno.Conn[]) => {
    for (const one of both) if (open.delete(one)) one.close();
  };
  const relay = async (client: Deno.Conn) => {
    const agent = await Deno.connect({ hostname: "127.0.0.1", port });
    open.add(client).add(agent);
    let left = Number.POSITIVE_INFINITY;
    const pump = async (from: Deno.Conn, to: Deno.Conn, look: (part: Uint8Array) => Uint8Array) => {
      const buffer = new Uint8Array(16_384);
      for (let size = await from.read(buffer); size !== null; size = await from.read(buffer)) {
        let part = look(buffer.subarray(0, size));
        while (part.length > 0) part = part.subarray(await to.write(part));
        if (left <= 0) break;
      }
    };
    const up = pump(client, agent, (part) => {
      const text = DECODER.decode(part);
      const line = /^[A-Z]+ \S+/.exec(text)?.[0];
      if (line === undefined) return part;
      asked.push({ line, id: /last-event-id: (\S+)/i.exec(text)?.[1] });
      if (line.startsWith("GET /agent/v1/events")) left = CUT_BYTES;
      return part;
    });
    const down = pump(agent, client, (part) => {
      const kept = part.subarray(0, Math.min(part.length, left));
      left -= part.length;
      return kept;
    });
    // A connection that was closed under a reader ends it.
    await Promise.race([up, down]).catch(() => {});
    close(client, agent);
    await Promise.allSettled([up, down]);
  };
  const accepting = (async () => {
    const relays: Promise<void>[] = [];
    for await (const client of listener) relays.push(relay(client));
    close(...open);
    await Promise.allSettled(relays);
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    asked,
    async [Symbol.asyncDispose]() {
      listener.close();
      close(...open);
      await accepting;
    },
  };
}

Deno.test("job tail continues after each cut: no line is lost or repeated", () =>
  withHttpAgent(async (agent) => {
    await using way = cutting(agent.port);
    const uuid = await newJob(agent) as JobUuid;
    await claimAll(agent);
    const say = (n: number) => agent.store.info.append(uuid, { n }, agent.clock.now, NO_LIMIT);
    for (let n = 1; n <= 3; n++) await say(n);
    const screen = screenFor(way.url);
    const ended = screen.run("job", "tail", uuid, "--json");
    const lines = () => {
      const whole = screen.out().split("\n").slice(0, -1).map((line) => JSON.parse(line));
      return whole.filter(({ kind }) => kind === "log").map(({ fields }) => fields.n);
    };
    for (let n = 4; n <= LINES; n++) {
      await say(n);
      // Each line comes while the job runs, whatever is cut.
      await until(`line ${n}`, () => lines().includes(n));
    }
    const logs = () => way.asked.filter(({ line }) => line.includes("/log?"));
    assertEquals(logs().length, 1, "the log was read again, and not its events");
    await endTask(agent, uuid, { kind: "succeed" });
    assertEquals(await ended, 0);
    assertEquals(lines(), Array.from({ length: LINES }, (_, index) => index + 1));
    const streams = way.asked.filter(({ line }) => line.startsWith("GET /agent/v1/events"));
    assert(streams.length > 3, `${streams.length} connections`);
    const ids = streams.map(({ id }) => id === undefined ? -1 : Number(id));
    assertEquals(ids[0], -1);
    assert(ids.slice(1).every((id, at) => id >= (ids[at] ?? 0) && id > 0), ids.join());
  }));
