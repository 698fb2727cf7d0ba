// Every kind of event, made to happen on a running agent: files on their way, syncs, machines that change,
// leftovers, the walls, and a disk that runs low.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { EVENT_KINDS, EVENT_PAYLOADS, PROGRESS_EVENT_MS } from "../../src/domain/event.ts";
import { type Description, parse } from "../../src/domain/description/description.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { type ReadEvent, readEvents } from "../http/event_reader.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { isoBytes } from "../support/medium.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until, withFolder } from "../support/until.ts";

const LIBRARY = "/agent/v1/media/library";
const MIB = 1024 * 1024;

async function withAgent(
  run: (agent: AgentProcess, folder: string) => Promise<void>,
  flags: readonly string[] = [],
): Promise<void> {
  await withFolder(async (folder) => {
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), [
      "--dev",
      ...flags,
    ]);
    try {
      await run(agent, folder);
    } finally {
      assertEquals(await agent.stop(), 0, agent.log());
    }
  });
}

const changeOf = ({ data }: ReadEvent) => String(data.change);

/** Asserts that each payload is as its kind describes it, and nothing else. */
function assertDescribed(events: readonly ReadEvent[]): void {
  for (const { kind, data } of events) {
    const known = EVENT_KINDS.find((one) => one === kind);
    assert(known !== undefined, kind);
    const description: Pick<Description<unknown>, "read"> = EVENT_PAYLOADS[known];
    assertEquals(parse(description as Description<unknown>, data, "", kind), data);
  }
}

/** All events of a query from the first one on, up to the one that is waited for. */
async function eventsUntil(
  agent: AgentProcess,
  query: string,
  last: (event: ReadEvent) => boolean,
): Promise<ReadEvent[]> {
  await using reader = await readEvents(agent.url, `?last_event_id=0&${query}`);
  const events = await reader.until(last);
  assertDescribed(events);
  return events;
}

async function put(
  agent: AgentProcess,
  name: string,
  body: BodyInit,
  headers: Record<string, string> = {},
): Promise<number> {
  const answer = await fetch(`${agent.url}${LIBRARY}/${name}`, { method: "PUT", body, headers });
  await answer.body?.cancel();
  return answer.status;
}

/** A slow machine takes long enough for reports of progress. */
function withoutProgress(events: readonly ReadEvent[]): ReadEvent[] {
  return events.filter((event) => changeOf(event) !== "syncing");
}

Deno.test("a sync of the index is reported at its start and at its end, also when nothing changed", () =>
  withAgent(async (agent) => {
    const ended = (event: ReadEvent) => changeOf(event) === "sync_finished";
    const [begun, end, ...more] = withoutProgress(await eventsUntil(agent, "kind=index", ended));
    assertEquals(begun?.data.change, "sync_started");
    assertEquals([begun?.data.outcome, begun?.data.added], [null, 0]);
    assertEquals([end?.data.outcome, more], ["complete", []]);
    assert(Number(end?.data.added) > 0);
    assertEquals((await agent.post("/agent/v1/index/sync")).status, 202);
    let count = 0;
    const all = await eventsUntil(agent, "kind=index", (event) => ended(event) && ++count === 2);
    assertEquals(withoutProgress(all).map(changeOf), [
      "sync_started",
      "sync_finished",
      "sync_started",
      "sync_finished",
    ]);
    const { added, changed, removed, outcome } = all.at(-1)?.data ?? {};
    assertEquals([added, changed, removed, outcome], [0, 0, 0, "complete"]);
  }));

Deno.test("a sync that reaches nothing is reported as failed", () =>
  withFolder(async (folder) => {
    const flags = ["--host", "simulated", "--index", join(folder, "missing")];
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), flags);
    try {
      const events = await eventsUntil(agent, "kind=index", (event) =>
        changeOf(event) === "sync_failed");
      const [begun, end, ...more] = withoutProgress(events);
      assertEquals(
        [begun, end].map((event) =>
          event && changeOf(event)
        ),
        [
          "sync_started",
          "sync_failed",
        ],
      );
      assertEquals([end?.data.outcome, more], ["failed", []]);
    } finally {
      await agent.stop();
    }
  }));

Deno.test("an upload is reported at its start and its end, however many parts bring it", () =>
  withAgent(async (agent) => {
    const bytes = isoBytes(4 * MIB);
    const part = 64 * 1024;
    for (let from = 0; from < bytes.length; from += part) {
      const range = `bytes ${from}-${from + part - 1}/${bytes.length}`;
      const status = await put(agent, "parts.iso", bytes.subarray(from, from + part), {
        "content-range": range,
      });
      assertEquals(status, from + part === bytes.length ? 201 : 202);
    }
    const events = await eventsUntil(
      agent,
      "kind=media",
      (event) => changeOf(event) === "upload_ended",
    );
    const names = events.filter(({ data }) => data.name === "parts.iso");
    const moving = names.filter((event) => changeOf(event) === "uploading");
    const times = moving.map(({ data }) => Date.parse(String(data.time)));
    const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0));
    // Two clocks are compared, and one of them may be set meanwhile.
    assert(pauses.every((ms) => ms > PROGRESS_EVENT_MS / 2), `reported after ${pauses.join()} ms`);
    assertEquals(moving[0]?.data, {
      ...moving[0]?.data,
      sha256: null,
      size: bytes.length,
      done: 0,
      error: null,
    });
    assertEquals(names.filter((event) => changeOf(event) !== "uploading").map(changeOf), [
      "added",
      "upload_ended",
    ]);
    assertEquals([names.at(-1)?.data.done, names.at(-1)?.data.error], [bytes.length, null]);
    // What breaks off has an end too, with the reason.
    const broken = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start: (controller) => controller.enqueue(bytes.subarray(0, part)),
    });
    const gone = new AbortController();
    const sent = fetch(`${agent.url}${LIBRARY}/broken.iso`, {
      method: "PUT",
      body: broken,
      signal: gone.signal,
    }).catch(() => undefined);
    const ofBroken = ({ data }: ReadEvent) => data.name === "broken.iso";
    await eventsUntil(agent, "kind=media", ofBroken);
    gone.abort();
    await sent;
    const all = await eventsUntil(
      agent,
      "kind=media",
      (event) => ofBroken(event) && changeOf(event) === "upload_ended",
    );
    assertStringIncludes(String(all.at(-1)?.data.error), "was cut off");
  }));

Deno.test("a download is reported at its start and its end, and a failed one with its reason", () =>
  withAgent(async (agent) => {
    await eventsUntil(agent, "kind=index", (event) => changeOf(event) === "sync_finished");
    const listed = await agent.get("/agent/v1/images?limit=50");
    const images = listed.body.images as JsonObject[];
    const iso = images.find(({ artifact }) => (artifact as JsonObject).format === "iso");
    assert(iso !== undefined, JSON.stringify(images[0]));
    const { distro, release, build } = iso;
    const fetched = await agent.post("/agent/v1/media", {
      artifact: { distro, release, build, format: "iso" } as JsonObject,
    });
    assertEquals(fetched.status, 202, JSON.stringify(fetched.body));
    await agent.job(String(fetched.body.job_uuid), "success");
    const events = await eventsUntil(
      agent,
      "kind=media",
      (event) => changeOf(event) === "download_ended",
    );
    assertEquals(events.map(changeOf).filter((word) => word !== "downloading"), [
      "added",
      "download_ended",
    ]);
    assertEquals([changeOf(events[0] as ReadEvent), events[0]?.data.done], ["downloading", 0]);
    const { done, size, error } = events.at(-1)?.data ?? {};
    assert(Number(done) > 0 && error === null, JSON.stringify(events.at(-1)));
    assertEquals(done, size);
    // The same server has no such file.
    const missing = await agent.post("/agent/v1/media", {
      url: new URL("/files/missing.iso", String(iso.url)).href,
      digest: `sha256:${"0".repeat(64)}`,
    });
    await agent.job(String(missing.body.job_uuid), "failure");
    const failed = await eventsUntil(agent, "kind=media", ({ data }) => data.error !== null);
    assertEquals(failed.at(-1)?.data.name, "missing.iso");
    assertStringIncludes(String(failed.at(-1)?.data.error), "404");
    // It is removed by its digest, not by its name.
    const digest = String(events.find((event) => changeOf(event) === "added")?.data.sha256);
    const answer = await fetch(`${agent.url}/agent/v1/media/${digest}`, { method: "DELETE" });
    await answer.body?.cancel();
    const removed = await eventsUntil(
      agent,
      "kind=media",
      (event) => changeOf(event) === "removed",
    );
    assertEquals(removed.at(-1)?.data.sha256, digest);
  }));

async function newMachine(agent: AgentProcess, uuid: string): Promise<string> {
  const { status, body } = await agent.post("/agent/v1/machines", {
    machine: { brand: "kvm", alias: "seen", ram: 256, vcpus: 1 },
    media: { path: "boot.iso" },
    uuid,
  });
  assertEquals(status, 202, JSON.stringify(body));
  return String(body.job_uuid);
}

Deno.test("a machine whose state changed since the last list is reported, and so is one that is gone", () =>
  withAgent(async (agent) => {
    const uuid = crypto.randomUUID();
    assertEquals(await put(agent, "boot.iso", isoBytes(MIB)), 201);
    assertEquals((await agent.get("/agent/v1/machines")).status, 200);
    await agent.job(await newMachine(agent, uuid), "success");
    const states = (want: (event: ReadEvent) => boolean) =>
      eventsUntil(
        agent,
        `kind=machine&machine=${uuid}`,
        (event) => changeOf(event) === "state" && want(event),
      );
    await agent.get("/agent/v1/machines");
    const made = await states(({ data }) => data.machine_state === "running");
    assertEquals(made.at(-1)?.data, {
      time: made.at(-1)?.data.time ?? null,
      change: "state",
      machine_uuid: uuid,
      alias: "seen",
      action: null,
      state: null,
      machine_state: "running",
      job_uuid: null,
      error: null,
    });
    assert(made.some(({ data }) => data.change === "job" && data.action === "provision-machine"));
    // By hand, and by no job of the agent.
    assertEquals((await agent.simulate("vmadm", "stop", "-F", uuid)).code, 0);
    await agent.get("/agent/v1/machines");
    await states(({ data }) => data.machine_state === "stopped");
    assertEquals((await agent.simulate("vmadm", "delete", uuid)).code, 0);
    await agent.get("/agent/v1/machines");
    const gone = await states(({ data }) => data.machine_state === null);
    const seen = gone.filter((event) => changeOf(event) === "state");
    assertEquals(seen.map(({ data }) => data.machine_state), ["running", "stopped", null]);
  }));

Deno.test("a leftover is reported when it is found, when it is dropped, and when it is removed", () =>
  withAgent(async (agent) => {
    assertEquals(await put(agent, "boot.iso", isoBytes(MIB)), 201);
    await agent.simulate("fault", "start_failure");
    await agent.simulate("fault", "delete_busy");
    const [dropped, removed] = [crypto.randomUUID(), crypto.randomUUID()];
    const jobs = [await newMachine(agent, dropped), await newMachine(agent, removed)];
    for (const job of jobs) await agent.job(job, "failure");
    await agent.simulate("fault", "--clear");
    const of = (uuid: string, change: string) =>
      eventsUntil(agent, `kind=machine&machine=${uuid}`, (event) => changeOf(event) === change);
    const made = await of(dropped, "leftover_made");
    assertEquals([made.at(-1)?.data.job_uuid, made.at(-1)?.data.state], [jobs[0], null]);
    await of(removed, "leftover_made");
    const url = `${agent.url}/agent/v1/leftovers/${dropped}`;
    assertEquals((await fetch(url, { method: "DELETE" })).status, 200);
    const all = await of(dropped, "leftover_dropped");
    const words = all.map(changeOf).filter((word) => word !== "job" && word !== "state");
    assertEquals(words, ["leftover_made", "leftover_dropped"]);
    // Its first attempt is a minute after the end of the job.
    await until("the removal", async () => {
      const { items } = (await agent.get("/agent/v1/leftovers")).body as unknown as {
        items: JsonObject[];
      };
      return items.length === 0;
    }, 300_000);
    await of(removed, "leftover_removed");
  }));

Deno.test("a missing wall is reported once it is detected", () =>
  withAgent(async (agent) => {
    const walls = await until("the walls", async () => {
      const { body } = await agent.get("/agent/v1/host");
      return (body.walls as JsonObject).value as unknown as JsonObject[] | null;
    });
    const open = walls.filter(({ ok }) => ok !== true).map(({ name }) => name);
    const events = open.length === 0
      ? []
      : await eventsUntil(agent, "kind=host", (event) => changeOf(event) === "walls_changed");
    const told = events.filter((event) => changeOf(event) === "walls_changed");
    assertEquals(told.length, open.length === 0 ? 0 : 1);
    for (const name of open) assertStringIncludes(String(told[0]?.data.detail), String(name));
  }));

smallDiskTest(
  "a disk that runs low is reported, and its end too",
  () =>
    withFolder(async (folder) => {
      await withSmallDisk(folder, 420, async () => {
        const state = join(folder, "state");
        const agent = await startAgentProcess(programOfRun(), state, ["--dev"]);
        try {
          await using reader = await readEvents(agent.url, "?kind=host");
          await reader.begun();
          const file = await Deno.open(join(folder, "large"), { write: true, create: true });
          for (let written = 0; written < 160; written++) await file.write(new Uint8Array(MIB));
          file.close();
          const low = await reader.until((event) => changeOf(event) === "disk_low");
          assertStringIncludes(String(low.at(-1)?.data.detail), "expected 256 MiB");
          await Deno.remove(join(folder, "large"));
          const fine = await reader.until((event) => changeOf(event) === "disk_fine");
          assertEquals(fine.length, 1);
          assertDescribed([...low, ...fine]);
        } finally {
          await agent.stop();
        }
      });
    }),
);

Deno.test("an agent that starts, reads its settings again and stops says so", () =>
  withFolder(async (folder) => {
    const config = join(folder, "agent.toml");
    await Deno.writeTextFile(config, 'log_level = "info"\n');
    const flags = ["--dev", "--config", config];
    const agent = await startAgentProcess(programOfRun(), join(folder, "state"), flags);
    await using reader = await readEvents(agent.url, "?kind=host&last_event_id=0");
    try {
      await reader.until((event) => changeOf(event) === "started");
      await Deno.writeTextFile(config, 'log_level = "debug"\n');
      agent.signal("SIGHUP");
      const read = await reader.until((event) => changeOf(event) === "settings_reloaded");
      assertEquals(read.at(-1)?.data.detail, "log_level");
    } finally {
      assertEquals(await agent.stop(), 0);
    }
    const last = await reader.until((event) => changeOf(event) === "draining");
    assertDescribed(last);
    assertEquals(await reader.next(), undefined);
  }));
