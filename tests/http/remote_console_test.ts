// Consoles of machines of another host whose agent does not behave: each case is a server that answers one connection.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { openCallCheck } from "../../src/http/peers/check.ts";
import { openPeers } from "../../src/http/peers/peers.ts";
import { openRemoteConsole } from "../../src/http/peers/remote_console.ts";
import type { ConsoleStream } from "../../src/http/machine_access.ts";
import { acceptOf } from "../../src/http/console/socket.ts";
import { frameBytes, OPCODE } from "../../src/http/console/frames.ts";
import { withDeadline } from "../support/until.ts";
import { clientFrame, joined } from "./client_frames.ts";
import { hostOf, MACHINE, newKey, openDirectory } from "./peer_case.ts";

/** A test that takes longer hangs, milliseconds. */
const DEADLINE_MS = 60_000;
const PATH = `/agent/v1/machines/${MACHINE}/console`;

/** What the other agent does with the connection, once the head of the request has arrived. */
type Conduct = (connection: Deno.Conn, head: string) => Promise<void>;

/** Opens the console at an agent of that conduct; afterwards, its connection must have been closed on this side. */
async function withOwner(
  conduct: Conduct,
  run: (opening: Promise<ConsoleStream>, viewer: AbortController) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    using connection = await listener.accept();
    const buffer = new Uint8Array(16 * 1024);
    let head = "";
    while (!head.includes("\r\n\r\n")) {
      head += new TextDecoder().decode(buffer.subarray(0, await connection.read(buffer) ?? 0));
    }
    // The other side may close at any time.
    await conduct(connection, head).catch(() => {});
    while (await connection.read(buffer).catch(() => null) !== null);
  })();
  const { port } = listener.addr as Deno.NetAddr;
  const { privateKey } = await newKey();
  const [own, other] = [hostOf(1), hostOf(2, { address: `http://127.0.0.1:${port}` })];
  const { book, reports } = openDirectory([own, other], other);
  const check = openCallCheck({ own, scope: "admin", book, nowMs: () => performance.now() });
  const peers = openPeers({ own, privateKey, authorities: [], book, reports, check });
  const viewer = new AbortController();
  const opening = openRemoteConsole(peers, other, {
    uuid: MACHINE,
    path: PATH,
    caller: { kind: "loopback" },
    request_id: "r1",
    signal: viewer.signal,
  });
  try {
    await withDeadline(run(opening, viewer), DEADLINE_MS, () => "the console");
    await withDeadline(serving, DEADLINE_MS, () => "the connection to close");
  } finally {
    listener.close();
  }
}

/** Sends bytes and leaves the connection open. */
function sends(...parts: readonly (string | Uint8Array)[]): Conduct {
  return async (connection) => {
    for (const part of parts) {
      const bytes = typeof part === "string" ? new TextEncoder().encode(part) : part;
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    }
  };
}

/** Opens the WebSocket, then sends these frames. */
function opens(...frames: readonly Uint8Array[]): Conduct {
  return async (connection, head) => {
    const key = /sec-websocket-key: (\S+)/.exec(head)?.[1] ?? "";
    const lines = [
      "HTTP/1.1 101 Switching Protocols",
      "upgrade: websocket",
      "connection: Upgrade",
      `sec-websocket-accept: ${await acceptOf(key)}`,
    ];
    await sends(`${lines.join("\r\n")}\r\n\r\n`, ...frames)(connection, head);
  };
}

/** Ends the connection after that. */
function thenCloses(conduct: Conduct): Conduct {
  return async (connection, head) => {
    await conduct(connection, head);
    await (connection as Deno.TcpConn).closeWrite();
  };
}

async function assertOpensNot(conduct: Conduct, code: ErrorCode, words: string): Promise<void> {
  await withOwner(conduct, async (opening) => {
    const error = await assertRejects(() => opening, AgentError);
    assertEquals(error.code, code, error.message);
    assertStringIncludes(error.message, words);
  });
}

const HELLO = new TextEncoder().encode("RFB 003.008\n");
const GREETING = frameBytes(OPCODE.binary, HELLO);

Deno.test("a peer that answers garbage opens no console, and its host counts as away", async () => {
  const words = "its answer is not that of an agent";
  await assertOpensNot(sends("SSH-2.0-OpenSSH_9.9\r\n\r\n"), "host_away", words);
  await assertOpensNot(sends("HTTP/1.1 one hundred\r\n\r\n"), "host_away", words);
  await assertOpensNot(sends(new Uint8Array(1024 * 1024).fill(255)), "host_away", words);
  const endless = `HTTP/1.1 101 X\r\n${"x-more: yes\r\n".repeat(100_000)}`;
  await assertOpensNot(sends(endless), "host_away", words);
});

Deno.test("a peer that closes before its answer opens no console", async () => {
  const words = "it closed the connection";
  await assertOpensNot(thenCloses(sends()), "host_away", words);
  await assertOpensNot(thenCloses(sends("HTTP/1.1 101 Switch")), "host_away", words);
  await assertOpensNot(thenCloses(opens()), "host_away", "it closed the console");
  const closed = frameBytes(OPCODE.close, new Uint8Array());
  await assertOpensNot(opens(closed), "host_away", "it closed the console");
});

Deno.test("a peer whose 101 does not accept the WebSocket key is refused", async () => {
  const other = "HTTP/1.1 101 X\r\nsec-websocket-accept: AAAA\r\n\r\n";
  await assertOpensNot(sends(other, GREETING), "host_refused", "it does not open a WebSocket");
});

Deno.test("the reason why a peer opens no console is shown, unless its content-length is invalid", async () => {
  const error = JSON.stringify({ code: "Conflict", error_code: "conflict", message: "No console" });
  const said = (length: string, body: string) =>
    `HTTP/1.1 409 Conflict\r\ncontent-length: ${length}\r\n\r\n${body}`;
  await assertOpensNot(sends(said(`${error.length}`, error)), "conflict", "gz2: No console");
  const words = "it answers 409 without an error of an agent";
  for (const length of ["-1", "1.5", "1e9", "NaN", "9".repeat(400)]) {
    await assertOpensNot(sends(said(length, error)), "host_refused", words);
  }
  const long = "x".repeat(1024 * 1024);
  await assertOpensNot(sends(said("999999999", long)), "host_refused", words);
});

Deno.test("frames that no server may send end the console", async () => {
  const cases: readonly (readonly [Uint8Array, string])[] = [
    [clientFrame(OPCODE.binary, HELLO), "a frame is masked"],
    [frameBytes(OPCODE.text, HELLO), "a console takes binary messages"],
    [frameBytes(OPCODE.ping, new Uint8Array(200)), "a control frame is too long"],
    [frameBytes(OPCODE.binary | 0x40, HELLO), "a frame has reserved bits"],
    [frameBytes(OPCODE.continuation, HELLO), "a frame is not in its place"],
    [Uint8Array.from([0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255]), "a frame is too long"],
  ];
  for (const [frame, words] of cases) {
    await assertOpensNot(opens(frame), "host_away", words);
    await withOwner(opens(GREETING, frame), async (opening) => {
      const stream = await opening;
      assertEquals(stream.greeting, HELLO);
      await assertRejects(() => stream.read(new Uint8Array(64)), Error, words);
      stream.close();
    });
  }
});

Deno.test("a frame of any length is passed on in pieces, and pings between frames are answered", async () => {
  const LENGTH = 64 * 1024 * 1024;
  const head = new Uint8Array(10);
  head.set([0x82, 127]);
  new DataView(head.buffer).setBigUint64(2, BigInt(LENGTH));
  const part = new Uint8Array(1024 * 1024);
  const parts = Array.from({ length: LENGTH / part.length }, () => part);
  const ping = frameBytes(OPCODE.ping, HELLO);
  await withOwner(thenCloses(opens(joined([GREETING, ping, head]), ...parts)), async (opening) => {
    const stream = await opening;
    const buffer = new Uint8Array(1024 * 1024);
    let bytes = 0;
    let most = 0;
    for (let count = await stream.read(buffer); count !== null; count = await stream.read(buffer)) {
      bytes += count;
      most = Math.max(most, count);
    }
    assertEquals(bytes, LENGTH);
    assert(most < part.length, `a read returned ${most} bytes at once`);
    stream.close();
  });
});

Deno.test("an agent that never answers is left when the viewer goes", async () => {
  for (const conduct of [sends(), sends("HTTP/1.1 101 "), opens()]) {
    const { promise: silent, resolve } = Promise.withResolvers<void>();
    const silently: Conduct = async (...asked) => resolve(await conduct(...asked));
    await withOwner(silently, async (opening, viewer) => {
      await silent;
      viewer.abort();
      const error = await assertRejects(() => opening, AgentError);
      assertEquals(error.code, "aborted", error.message);
    });
  }
});
