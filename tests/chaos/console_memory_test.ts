// Consoles whose clients send messages that never end: in parts without end, and in one frame that is
// longer than any memory. What a console has not taken waits with its sender.

import { assert, AssertionError } from "@std/assert";
import { OPCODE } from "../../src/http/console/frames.ts";
import { consoleUrl, UPGRADE } from "../http/console_client.ts";
import { clientFrame } from "../http/client_frames.ts";
import { type ChaosAgent, length } from "./agent_under_chaos.ts";
import { atOnce, loadTest } from "./memory_load.ts";
import { makeMachine, prepareMedium } from "./load_machine.ts";

const CLIENTS = 100;
/** Bytes that each client tries to send. */
const CLIENT_BYTES = length({ quick: 8, full: 64 }) * 1024 * 1024;
const PART_BYTES = 64 * 1024;
/** Milliseconds for one client; the agent may stop reading from it, and then nothing moves. */
const CLIENT_MS_MAX = length({ quick: 10_000, full: 60_000 });
const FLAGS = ["--consoles-max", `${CLIENTS}`];

/** What a console answers, and how a busy host refuses it. */
const ANSWERS = /^HTTP\/1.1 (101|502|504) /;

/** @returns how many bytes were taken from a client before it was refused, closed, or late */
async function flood(agent: ChaosAgent, uuid: string, parts: () => Uint8Array): Promise<number> {
  const { hostname, port, pathname, host } = new URL(consoleUrl(agent.url, uuid));
  const connection = await Deno.connect({ hostname, port: Number(port) });
  const late = setTimeout(() => connection.close(), CLIENT_MS_MAX);
  let sent = 0;
  try {
    const lines = Object.entries({ host, ...UPGRADE }).map(([name, value]) => `${name}: ${value}`);
    const head = [`GET ${pathname} HTTP/1.1`, ...lines, "", ""].join("\r\n");
    await connection.write(new TextEncoder().encode(head));
    const answer = new Uint8Array(512);
    const count = await connection.read(answer) ?? 0;
    const words = new TextDecoder().decode(answer.subarray(0, count));
    const status = ANSWERS.exec(words)?.[1];
    assert(status !== undefined, words);
    if (status !== "101") return 0;
    while (sent < CLIENT_BYTES) {
      const part = parts();
      for (let at = 0; at < part.length;) at += await connection.write(part.subarray(at));
      sent += part.length;
    }
  } catch (error) {
    if (error instanceof AssertionError) throw error;
    // The agent has closed it, or its time is up.
  } finally {
    clearTimeout(late);
    try {
      connection.close();
    } catch {
      // It was ended because its time was up.
    }
  }
  return sent;
}

/** Sends one part, and then another again and again. */
async function floodAll(agent: ChaosAgent, first: Uint8Array, next: Uint8Array): Promise<void> {
  const uuid = await makeMachine(agent);
  const sent: number[] = [];
  await atOnce(CLIENTS, async () => {
    let begun = false;
    const parts = () => {
      const part = begun ? next : first;
      begun = true;
      return part;
    };
    sent.push(await flood(agent, uuid, parts));
  });
  const carried = sent.filter((bytes) => bytes >= first.length).length;
  // The simulated host refuses some when it is busy.
  assert(carried >= CLIENTS / 10, `${carried} of ${CLIENTS} clients could send anything`);
}

loadTest("clients send consoles messages whose parts never end", async ({ agent }) => {
  const first = clientFrame(OPCODE.binary, new Uint8Array(PART_BYTES), { last: false });
  const next = clientFrame(OPCODE.continuation, new Uint8Array(PART_BYTES), { last: false });
  await floodAll(agent, first, next);
}, { flags: FLAGS, prepare: prepareMedium });

loadTest("clients send consoles one endless frame", async ({ agent }) => {
  const length = 60n * 1024n ** 3n;
  const first = clientFrame(OPCODE.binary, new Uint8Array(PART_BYTES), { length });
  await floodAll(agent, first, new Uint8Array(PART_BYTES));
}, { flags: FLAGS, prepare: prepareMedium });
