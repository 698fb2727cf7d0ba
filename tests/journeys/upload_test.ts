// Uploads into a running agent, from source and compiled: a crash in the middle, a full disk, memory, a
// folder that is added while it runs, and a machine made of what was uploaded.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { forgetPeak, peakMiB, residentMiB } from "../chaos/memory.ts";
import {
  type AgentProcess,
  type Program,
  sourceProgram,
  startAgentProcess,
} from "../support/agent_process.ts";
import { eachProgram } from "../support/each_program.ts";
import { isoBytes } from "../support/medium.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until, withFolder } from "../support/until.ts";

const LIBRARY = "/agent/v1/media/library";
const MIB = 1024 * 1024;
const BYTES = isoBytes(8 * MIB);
/** Much more than the agent's memory may grow by; where it relays the bytes, their buffers are not small. */
const SENT_MIB = 320;

async function put(
  agent: AgentProcess,
  name: string,
  body: BodyInit,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${agent.url}${LIBRARY}/${name}`, { method: "PUT", body, headers });
  return { status: answer.status, text: await answer.text() };
}

async function offsetOf(agent: AgentProcess, name: string): Promise<number> {
  const answer = await fetch(`${agent.url}${LIBRARY}/${name}`, { method: "HEAD" });
  return Number(answer.headers.get("upload-offset") ?? 0);
}

async function digestOf(bytes: Uint8Array<ArrayBuffer>): Promise<Record<string, string>> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return { "repr-digest": `sha-256=:${btoa(String.fromCharCode(...digest))}:` };
}

async function withAgent(
  program: Program,
  run: (agent: AgentProcess, folder: string) => Promise<void>,
  flags: readonly string[] = [],
): Promise<void> {
  await withFolder(async (folder) => {
    const agent = await startAgentProcess(program, join(folder, "state"), ["--dev", ...flags]);
    try {
      await run(agent, folder);
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  });
}

eachProgram(
  "an upload goes on after the agent was killed, and a machine boots from it",
  (program) =>
    withFolder(async (folder) => {
      const state = join(folder, "state");
      const flags = ["--dev", "--upload-dir", join(folder, "uploads")];
      const first = await startAgentProcess(program, state, flags);
      const half = BYTES.subarray(0, 4 * MIB);
      const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
        start: (controller) => controller.enqueue(half),
      });
      const range = { "content-range": `bytes 0-${BYTES.length - 1}/${BYTES.length}` };
      const broken = put(first, "a.iso", body, range).catch(() => undefined);
      await until("half of it", async () => await offsetOf(first, "a.iso") === half.length);
      await first.kill();
      await broken;
      const second = await startAgentProcess(program, state, flags);
      try {
        const offset = await offsetOf(second, "a.iso");
        assertEquals(offset, half.length);
        assertEquals((await second.get(LIBRARY)).body.files, []);
        const rest = await put(second, "a.iso", BYTES.subarray(offset), {
          ...await digestOf(BYTES),
          "content-range": `bytes ${offset}-${BYTES.length - 1}/${BYTES.length}`,
        });
        assertEquals(rest.status, 201, rest.text);
        const machine = { brand: "kvm", ram: 256, vcpus: 1 };
        const posted = await second.post("/agent/v1/machines", {
          machine,
          media: { path: "a.iso" },
        });
        assertEquals(posted.status, 202, JSON.stringify(posted.body));
        await second.job(String(posted.body.job_uuid), "success");
      } finally {
        assertEquals(await second.stop(), 0);
      }
    }),
);

eachProgram(
  "an upload takes no memory, however large it is",
  (program) =>
    withAgent(program, async (agent) => {
      const pid = Number(/"agent started".*"pid":(\d+)/.exec(agent.log())?.[1]);
      assertEquals((await put(agent, "small.iso", BYTES)).status, 201);
      const before = residentMiB(pid);
      forgetPeak(pid);
      const part = new Uint8Array(MIB);
      let sent = 0;
      const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
        pull(controller) {
          if (sent++ === SENT_MIB) return controller.close();
          controller.enqueue(part);
        },
      });
      const answer = await put(agent, "large.img", body);
      assertEquals(
        [answer.status, JSON.parse(answer.text).size],
        [201, SENT_MIB * MIB],
        answer.text,
      );
      const most = peakMiB(pid);
      assert(most - before < SENT_MIB / 2, `${before} MiB before, ${most} MiB at most`);
    }),
);

smallDiskTest(
  "an upload that does not fit is answered with 507, and leaves nothing",
  () =>
    withFolder(async (folder) => {
      const uploads = join(folder, "uploads");
      await Deno.mkdir(uploads);
      await withSmallDisk(uploads, 4, () =>
        withAgent(sourceProgram(), async (agent) => {
          const full = await put(agent, "a.iso", BYTES);
          assertEquals(full.status, 507, full.text);
          assertStringIncludes(full.text, "bytes are free");
          assertEquals(await offsetOf(agent, "a.iso"), 0);
          assertEquals((await agent.get(LIBRARY)).body.files, []);
        }, ["--upload-dir", uploads]));
    }),
);

Deno.test("a media folder that is added to the configuration is listed after SIGHUP", () =>
  withFolder(async (folder) => {
    const [config, later] = [join(folder, "zonewright.toml"), join(folder, "later")];
    await Deno.mkdir(later);
    await Deno.writeFile(join(later, "b.iso"), BYTES);
    await Deno.writeTextFile(config, "media_dir = []\n");
    await withAgent(sourceProgram(), async (agent) => {
      assertEquals((await agent.get(LIBRARY)).body.files, []);
      await Deno.writeTextFile(config, `media_dir = [${JSON.stringify(later)}]\n`);
      agent.signal("SIGHUP");
      const files = await until("the folder", async () => {
        const { body } = await agent.get(LIBRARY);
        const found = body.files as JsonObject[];
        return found.length === 1 ? found : undefined;
      });
      assertEquals([files[0]?.name, files[0]?.place], ["b.iso", "folder"]);
    }, ["--config", config]);
  }));
