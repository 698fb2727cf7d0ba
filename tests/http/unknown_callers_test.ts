// What a caller can make the agent send before it has shown who it is. A connection on which more was
// written than the system takes for a caller who reads nothing could not be closed; see docs/access.md.

import { assert, assertEquals } from "@std/assert";
import { peerNetwork } from "../../src/http/listen/listener.ts";
import { isSameEnd } from "../../src/http/listen/secured_connection.ts";
import type { App } from "../../src/http/server.ts";
import { until } from "../support/until.ts";
import {
  ended,
  listenerTest,
  type OpenedListener,
  send,
  TLS_LISTENERS,
  withListener,
} from "./listeners.ts";
import { listed } from "./raw_call.ts";

const LARGE_CHARS = 1_000_000;
/** More than a certificate of these tests, a handshake and one small answer, and far less than a large one. */
const LITTLE_CHARS = 20_000;
const GET = listed(["GET / HTTP/1.1", "Host: localhost"]);
const GET_AND_CLOSE = listed(["GET / HTTP/1.1", "Host: localhost", "Connection: close"]);

/** The beginning of HTTP/2 without having agreed on it, and an empty SETTINGS (RFC 9113, 3.4 and 6.5). */
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/** PING frames, each of which has to be answered (RFC 9113, 6.7). */
const PINGS = "\0\0\x08\x06\0\0\0\0\0zonewrit".repeat(500);

/** What the application says of who is not known, and of others. */
const LARGE = { unknown: answering({ connection: "close" }), known: answering({}) };

function answering(headers: HeadersInit): App {
  return { fetch: () => new Response("x".repeat(LARGE_CHARS), { headers }) };
}

async function answerTo({ converse }: OpenedListener, request: string): Promise<string> {
  const connection = await converse();
  await send(connection, request);
  return await ended(connection);
}

listenerTest(
  TLS_LISTENERS,
  "who is not known is sent little, and others all they asked for",
  async (kind) => {
    await withListener(kind, { app: LARGE.unknown }, async (listener) => {
      const { length } = await answerTo(listener, GET);
      assert(length < LITTLE_CHARS, `${length} characters were sent`);
    });
    await withListener(kind, { app: LARGE.known }, async (listener) => {
      const [, body = ""] = (await answerTo(listener, GET_AND_CLOSE)).split("\r\n\r\n");
      assertEquals(body.length, LARGE_CHARS);
    });
  },
);

listenerTest(
  TLS_LISTENERS,
  "who is not known and sends PING after PING is closed before any limit of time",
  (kind) =>
    withListener(kind, {}, async (listener) => {
      const connection = await listener.converse();
      await send(connection, PREFACE);
      let text: string | undefined;
      ended(connection).then((all) => text = all);
      await until("the connection to be closed", async () => {
        if (text === undefined) await send(connection, PINGS).catch(() => {});
        return text !== undefined;
      });
      const length = text?.length ?? 0;
      assert(length < LITTLE_CHARS, `${length} characters were sent`);
    }),
);

Deno.test("the end of a connection is known by its address and its port", () => {
  const own: Deno.NetAddr = { transport: "tcp", hostname: "127.0.0.1", port: 40_000 };
  assert(isSameEnd(own, { ...own }));
  assert(!isSameEnd(own, { ...own, port: 40_001 }));
  assert(!isSameEnd(own, { ...own, hostname: "127.0.0.2" }));
  assert(!isSameEnd(own, { transport: "unix", path: "/s" }));
});

Deno.test("peerNetwork() is an address of IPv4, and 64 bits of IPv6", () => {
  const pairs = [
    ["192.0.2.1", "192.0.2.1"],
    ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"],
    ["2001:db8::", "2001:db8:0:0:5::7"],
    ["::ffff:192.0.2.1", "::FFFF:c000:201"],
  ] as const;
  for (const [one, other] of pairs) assertEquals(peerNetwork(one), peerNetwork(other));
  const all = new Set(pairs.map(([one]) => peerNetwork(one)));
  all.add(peerNetwork("192.0.2.2")).add(peerNetwork("::ffff:192.0.2.2"));
  all.add(peerNetwork("2001:db8:1:3::1"));
  assertEquals(all.size, pairs.length + 3);
});
