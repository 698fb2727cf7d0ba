// A thousand readers of the events at once: as many as may be are served, the others are refused in words, and
// the agent's memory stays bounded.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { type EventReader, readEvents } from "../http/event_reader.ts";
import { forgetPeak, peakMiB, residentMiB } from "./memory.ts";

const READERS = 1000;
/** The limit where the operator sets no other. */
const OPEN_MAX = 256;
/** One for each reader, whose buffer it is, and what the answers to all of them take on top. */
const GROWTH_MIB_MAX = OPEN_MAX + 100;
const LINES = 200;

Deno.test("of a thousand readers 256 are served, the others refused, and memory stays bounded", () =>
  withFolder(async (folder) => {
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), ["--dev"]);
    const readers: EventReader[] = [];
    try {
      const pid = Number(/"agent started".*"pid":(\d+)/.exec(agent.log())?.[1]);
      const before = residentMiB(pid);
      forgetPeak(pid);
      const refused: { status: number; retry: boolean; text: string }[] = [];
      const open = async (): Promise<void> => {
        const reader = await readEvents(agent.url).catch(() => undefined);
        if (reader !== undefined) return void readers.push(reader);
        const answer = await fetch(`${agent.url}/agent/v1/events`);
        const { status, headers } = answer;
        if (status === 200) {
          // Somebody's place has become free meanwhile.
          await answer.body?.cancel();
          return await open();
        }
        refused.push({ status, retry: headers.has("retry-after"), text: await answer.text() });
      };
      // A few at a time, so that only the limit of streams is met.
      for (let count = 0; count < READERS; count += 20) {
        await Promise.all(Array.from({ length: 20 }, open));
      }
      assertEquals([readers.length, refused.length], [OPEN_MAX, READERS - OPEN_MAX]);
      assert(refused.every(({ status, retry }) => status === 503 && retry));
      for (const { text } of refused) {
        assertStringIncludes(text, "256 are open");
        assertStringIncludes(text, "(setting limits.event_streams_max)");
      }
      const chain = [{ name: "a", body: "(job, cb) => cb('wait')" }];
      const { body } = await agent.post("/workflows", { name: "many", chain });
      const job = await agent.post("/jobs", { workflow: String(body.uuid) });
      const uuid = String(job.body.uuid);
      for (let line = 0; line < LINES; line++) {
        await agent.post(`/jobs/${uuid}/info`, { message: "x".repeat(10_000), line });
      }
      await Promise.all(readers.map(async (reader) => {
        let lines = 0;
        await reader.until(({ kind }) => kind === "log" && ++lines === LINES);
      }));
      const grown = peakMiB(pid) - before;
      assert(grown < GROWTH_MIB_MAX, `${grown.toFixed(0)} MiB more`);
    } finally {
      await Promise.all(readers.map((reader) => reader[Symbol.asyncDispose]()));
      await agent.stop();
    }
  }));
