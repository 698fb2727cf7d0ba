// The two numbers of memory: that of the agent, which is built into the binary, and that of guests,
// which the system sets below it.

import { assert, assertMatch } from "@std/assert";
import {
  AGENT_HEAP_MIB,
  findGuestTools,
  WALLED_MEMORY_MIB,
} from "../../src/sandbox/guest_command.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { binaryProgram, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { withPool } from "./bodies.ts";

const MIB = 1024 * 1024;
/** What V8 adds to its limit for objects that are young. */
const YOUNG_MIB = 96;
/** What a guest has for itself, and what V8 takes ahead. */
const SLACK_MIB = 80;

const binary = binaryProgram();
const required = Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") === "all";
const { missing } = await findGuestTools();

Deno.test({
  name: "the heap of an agent is limited to AGENT_HEAP_MIB [needs dist/zonewright]",
  ignore: binary === undefined && !required,
  async fn() {
    assert(binary !== undefined);
    await withFolder(async (folder) => {
      const agent = await startAgentProcess(binary, folder, ["--dev"]);
      try {
        const text = await (await fetch(`${agent.url}/metrics`)).text();
        const [, bytes] = /^zonewright_process_heap_limit_bytes (\S+)$/m.exec(text) ?? [];
        const mib = Number(bytes) / MIB;
        assert(mib >= AGENT_HEAP_MIB && mib <= AGENT_HEAP_MIB + YOUNG_MIB, `${mib} MiB`);
      } finally {
        await agent.stop();
      }
    });
  },
});

Deno.test({
  name:
    "a task that fills heap or buffers is ended near the limit for guests [needs dist/zonewright]",
  ignore: (binary === undefined || missing.includes("prlimit")) && !required,
  async fn(t) {
    assert(binary !== undefined);
    const self = { ...binary, compiled: true };
    for (const part of ["new Array(1048576).fill(1.5)", "new Uint8Array(8388608).fill(1)"]) {
      await t.step(part, () =>
        withPool(async (run) => {
          let taken = 0;
          const perform: Perform = (_, [entry]) => {
            taken = (entry as { mib: number }).mib;
            return Promise.resolve(null);
          };
          const source = `async () => {
            const held = [];
            for (let mib = 8;; mib += 8) { held.push(${part}); await info({ mib }); }
          }`;
          const outcome = await run(source, { perform });
          assert(outcome.kind === "failure", outcome.kind);
          const words = JSON.stringify(outcome.error);
          // The system refuses a buffer where V8 would end: the task may catch that.
          assertMatch(words, /"OutOfMemory"|allocation failed/);
          const near = taken > WALLED_MEMORY_MIB - SLACK_MIB &&
            taken <= WALLED_MEMORY_MIB + SLACK_MIB;
          assert(near, `${taken} MiB: ${words}`);
          if (part.startsWith("new Array")) assertMatch(words, /(256|320) MiB\)/);
        }, { self }));
    }
  },
});
