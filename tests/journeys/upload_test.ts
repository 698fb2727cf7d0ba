// Uploads into a running agent, from source and compiled: a crash in the middle, a full disk, memory, a
// folder that is added while it runs, and a machine made of what was uploaded.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { forgetPeak, peakMiB, residentMiB } from "../chaos/memory.ts";
import {
  type AgentProcess,
  type Program,
  programOfRun,
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
      assert(most - before < SENT_MIB * 3 / 4, `${before} MiB before, ${most} MiB at most`);
    }),
);

smallDiskTest(
  "an upload that does not fit is answered with 507, and leaves nothing",
  () =>
    withFolder(async (folder) => {
      const uploads = join(folder, "uploads");
      await Deno.mkdir(uploads);
      await withSmallDisk(uploads, 4, () =>
        withAgent(programOfRun(), async (agent) => {
          const full = await put(agent, "a.iso", BYTES);
          assertEquals(full.status, 507, full.text);
          assertStringIncludes(full.text, " in reserve");
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
    await withAgent(programOfRun(), async (agent) => {
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

Deno.test("a file that a job is hashing is neither replaced nor removed, and the job is named", () =>
  withAgent(programOfRun(), async (agent, folder) => {
    const uploads = join(folder, "state", "uploads");
    await Deno.mkdir(uploads, { recursive: true });
    const path = join(uploads, "large.iso");
    // Long to hash, and no room on the disk.
    await Deno.writeFile(path, isoBytes(MIB));
    await Deno.truncate(path, 16 * 1024 * MIB);
    const started = await agent.post("/agent/v1/media", { path: "large.iso" });
    assertEquals(started.status, 202, JSON.stringify(started.body));
    const job = String(started.body.job_uuid);
    await until("progress", async () => {
      const { body } = await agent.get(`/agent/v1/jobs/${job}`);
      return body.progress !== null;
    });
    const replaced = await put(agent, "large.iso?replace=true", BYTES);
    assertEquals(replaced.status, 409, replaced.text);
    assertStringIncludes(replaced.text, `it is read by job ${job}`);
    const removed = await fetch(`${agent.url}${LIBRARY}/large.iso`, { method: "DELETE" });
    assertEquals(removed.status, 409);
    assertStringIncludes(await removed.text(), job);
    await agent.post(`/jobs/${job}/cancel`);
    await until("the end of the reading", async () => {
      const answer = await fetch(`${agent.url}${LIBRARY}/large.iso`, { method: "DELETE" });
      await answer.body?.cancel();
      return answer.status === 200;
    });
  }));

Deno.test("a changed upload_dir is said to wait for a restart, and uploads go on where they were", () =>
  withFolder(async (folder) => {
    const config = join(folder, "agent.toml");
    const [first, second] = [join(folder, "first"), join(folder, "second")];
    await Deno.writeTextFile(config, `upload_dir = "${first}"\n`);
    const flags = ["--dev", "--config", config];
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), flags);
    try {
      await Deno.writeTextFile(config, `upload_dir = "${second}"\n`);
      agent.signal("SIGHUP");
      const waiting = await until("the settings to be read", async () => {
        const { body } = await agent.get("/agent/v1/config");
        return (body.waiting as string[]).length > 0 ? body.waiting : undefined;
      });
      assertEquals(waiting, ["upload_dir"] as unknown as typeof waiting);
      await agent.said("upload_dir");
      assertEquals((await put(agent, "a.iso", BYTES)).status, 201);
      assertEquals((await Deno.stat(join(first, "a.iso"))).size, BYTES.length);
      assertEquals(await Deno.stat(second).catch(() => undefined), undefined);
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  }));

eachProgram(
  "of two agents with one upload folder, the first to use it alone changes files there",
  (program) =>
    withFolder(async (folder) => {
      const shared = ["--dev", "--upload-dir", join(folder, "uploads")];
      const first = await startAgentProcess(program, join(folder, "first"), shared);
      const second = await startAgentProcess(program, join(folder, "second"), shared);
      const half = BYTES.length / 2;
      const part = (agent: AgentProcess, from: number) =>
        put(agent, "a.iso", BYTES.slice(from, from + half), {
          "content-range": `bytes ${from}-${from + half - 1}/${BYTES.length}`,
        });
      const remove = async () => {
        const answer = await fetch(`${second.url}${LIBRARY}/a.iso`, { method: "DELETE" });
        return { status: answer.status, text: await answer.text() };
      };
      try {
        assertEquals((await part(first, 0)).status, 202);
        for (const refused of [await part(second, half), await remove()]) {
          assertEquals(refused.status, 409, refused.text);
          assertStringIncludes(refused.text, "another agent uses it, expected a folder for each");
        }
        assertEquals((await part(first, half)).status, 201);
        assertEquals((await remove()).status, 409);
        assertEquals(await Deno.readFile(join(folder, "uploads", "a.iso")), BYTES);
        await first.kill();
        assertEquals((await remove()).status, 200);
      } finally {
        await first.stop();
        assertEquals(await second.stop(), 0);
      }
    }),
);

Deno.test("an agent that stops keeps its upload folder until its last upload has ended", () =>
  withFolder(async (folder) => {
    const shared = ["--dev", "--upload-dir", join(folder, "uploads")];
    const first = await startAgentProcess(programOfRun(), join(folder, "first"), shared);
    const second = await startAgentProcess(programOfRun(), join(folder, "second"), shared);
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    let isOpen = true;
    const upload = put(first, "a.iso", readable).catch(() => {}).finally(() => isOpen = false);
    try {
      await writer.write(BYTES.slice(0, BYTES.length / 2));
      const place = join(folder, "uploads", ".zonewright-uploads", "a.iso");
      await until("the upload to begin", async () => {
        return ((await Deno.stat(place).catch(() => undefined))?.size ?? 0) > 0;
      });
      first.signal("SIGTERM");
      await first.said("agent stopping");
      const { status, text } = await put(second, "a.iso", BYTES);
      // On a busy machine the first agent may have ended the upload by then.
      if (isOpen) assertEquals(status, 409, text);
    } finally {
      await writer.abort().catch(() => {});
      await upload;
      await first.stop();
      assertEquals(await second.stop(), 0);
    }
  }));
