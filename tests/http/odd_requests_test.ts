// Requests that no client of the agent sends: each is answered or cut off, and the agent goes on.

import { assertEquals } from "@std/assert";
import { startAgentProcess } from "../support/agent_process.ts";
import { eachProgram } from "../support/each_program.ts";
import { withFolder } from "../support/until.ts";

const UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
/** More than any buffer between a caller and the agent holds. */
const LONG_BODY_BYTES = 16_000_000;

/** Heads of requests, without the last empty line, and the bodies behind them. */
const REQUESTS: readonly (readonly [head: string, body: string])[] = [
  ["POST /jobs HTTP/1.1\r\nContent-Type: text/x\r\nContent-Length: ", "x".repeat(LONG_BODY_BYTES)],
  ["POST /none HTTP/1.1\r\nContent-Length: ", "x".repeat(LONG_BODY_BYTES)],
  [`POST / HTTP/1.1\r\n${UPGRADE}Content-Length: `, "hello"],
  [`GET / HTTP/1.1\r\n${UPGRADE}Content-Length: `, "hello"],
  [`PUT /jobs HTTP/1.1\r\n${UPGRADE}Content-Length: `, "x".repeat(100_000)],
  ["CONNECT / HTTP/1.1\r\nContent-Length: ", "hello"],
  ["TRACE / HTTP/1.1\r\nContent-Length: ", ""],
];

/** Sends what the other end still takes. @param reads whether an answer is waited for */
async function send(url: string, text: string, reads: boolean): Promise<void> {
  const { hostname, port, host } = new URL(url);
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const bytes = new TextEncoder().encode(text.replace(" HTTP/1.1\r\n", `$&Host: ${host}\r\n`));
  try {
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    if (reads) await connection.read(new Uint8Array(1024));
  } catch (error) {
    const { BrokenPipe, ConnectionReset } = Deno.errors;
    if (![BrokenPipe, ConnectionReset].some((cut) => error instanceof cut)) throw error;
  } finally {
    connection.close();
  }
}

eachProgram(
  "the agent still answers after senseless requests and clients that leave early",
  (program) =>
    withFolder(async (folder) => {
      const agent = await startAgentProcess(program, folder, ["--host", "simulated"]);
      try {
        for (const [head, body] of REQUESTS) {
          const text = `${head}${body.length}\r\n\r\n${body}`;
          await send(agent.url, text, true);
          // Gone before there is an answer.
          for (let count = 0; count < 10; count++) await send(agent.url, text, false);
          assertEquals([head, (await agent.get("/healthz")).status], [head, 200]);
        }
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
);
