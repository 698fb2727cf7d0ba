import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { MediaFile } from "../../src/store/media_store.ts";
import { T0, taskOf } from "../support/job.ts";
import {
  assertRefused,
  FETCH_MEDIUM,
  fieldsOf,
  type HttpAgent,
  jobIn,
  listOf,
  newWorkflow,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const HEX = "ab".repeat(32);
const FILE: MediaFile = {
  sha256: HEX,
  name: "a.iso",
  path: null,
  size: 10,
  source: "url",
  origin: "https://images.example.com/a.iso",
  label: "https://images.example.com/a.iso",
  level: "vendor",
  created_at: T0,
  last_used_at: T0,
  verified_at: T0,
};

/** An agent with the workflow that fetches media, and one file. */
async function withMedia(run: (agent: HttpAgent) => Promise<void>): Promise<void> {
  await withHttpAgent(async (agent) => {
    const workflow = { uuid: FETCH_MEDIUM, name: "fetch-medium", onerror: [] };
    await agent.store.workflows.putBuiltin({ ...workflow, chain: [taskOf("fetch")] });
    await agent.store.media.keep(FILE);
    await run(agent);
  });
}

const URL_WISH = { url: "https://images.example.com/disk.qcow2", digest: `sha256:${HEX}` };

Deno.test("POST /agent/v1/media makes a job that will fetch it, and wakes the runner", async () => {
  await withMedia(async (agent) => {
    const requests = [
      URL_WISH,
      { url: "https://images.example.com/d.raw.xz", digest: `sha256:${HEX}`, compression: "xz" },
      { url: "https://images.example.com/d.raw", allow_unverified: true },
      { artifact: { distro: "omnios", release: "lts", format: "qcow2" }, check: "signature" },
      { path: "a.qcow2" },
    ];
    for (const order of requests) {
      const answer = await agent.call("POST", "/agent/v1/media", order);
      assertEquals([answer.status, answer.text.includes("job_uuid")], [202, true]);
      const { job_uuid } = objectOf(answer);
      assertEquals(answer.headers.get("location"), `/jobs/${job_uuid}`);
      const job = await agent.store.jobs.get(job_uuid as JobUuid);
      assertEquals([job?.workflow_uuid, job?.params], [FETCH_MEDIUM, { media: order }]);
    }
    assertEquals(agent.hints, requests.map(() => "queued"));
  });
});

Deno.test("POST /agent/v1/media joins the unfinished job of an equal request", async () => {
  await withMedia(async (agent) => {
    const [one, two] = await Promise.all([
      agent.call("POST", "/agent/v1/media", URL_WISH),
      agent.call("POST", "/agent/v1/media", URL_WISH),
    ]);
    assertEquals(objectOf(one).job_uuid, objectOf(two).job_uuid);
    await agent.call("POST", `/jobs/${objectOf(one).job_uuid}/cancel`, {});
    const three = await agent.call("POST", "/agent/v1/media", URL_WISH);
    assert(objectOf(three).job_uuid !== objectOf(one).job_uuid);
  });
});

Deno.test("POST /agent/v1/media joins no job of another workflow with equal target and params", async () => {
  await withMedia(async (agent) => {
    const workflow = await newWorkflow(agent);
    const job = { workflow, target: "/media", media: URL_WISH };
    const other = objectOf(await agent.call("POST", "/jobs", job));
    const refused = await agent.call("POST", "/agent/v1/media", URL_WISH);
    assertStringIncludes(assertRefused(refused, 409, "ConflictError"), String(other.uuid));
    await agent.call("POST", `/jobs/${other.uuid}/cancel`, {});
    assertEquals((await agent.call("POST", "/agent/v1/media", URL_WISH)).status, 202);
  });
});

Deno.test("POST /agent/v1/media refuses a body that names no file, and names every wrong field", async () => {
  await withMedia(async (agent) => {
    const { url, digest } = URL_WISH;
    const rows: [unknown, string[]][] = [
      [[], ["body"]],
      [{}, ["body"]],
      [{ url, path: "a.iso", digest }, ["body"]],
      [{ url }, ["digest"]],
      [{ url, allow_unverified: false }, ["digest"]],
      [{ url, digest: "md5:00" }, ["digest"]],
      [{ url: "ftp://example.com/a", digest }, ["url"]],
      [{ url: "https://u:p@example.com/a", digest }, ["url"]],
      [{ url, digest, check: "best" }, ["check"]],
      [{ url, digest, compression: "lz4" }, ["compression"]],
      [{ url, digest, allow_unverified: "yes" }, ["allow_unverified"]],
      [{ path: "../a.iso" }, ["path"]],
      [{ path: "a.iso", check: "none" }, ["check"]],
      [{ artifact: { distro: "x" } }, ["artifact.release"]],
      [{ artifact: { distro: "x", release: "y" }, compression: "xz" }, ["compression"]],
      [{ known: `sha256:${HEX}` }, ["body"]],
    ];
    for (const [body, fields] of rows) {
      const answer = await agent.call("POST", "/agent/v1/media", body);
      assertEquals([JSON.stringify(body), answer.status], [JSON.stringify(body), 409]);
      assertEquals(fieldsOf(answer).sort(), fields, answer.text);
    }
    assertEquals((await agent.store.jobs.list({})).length, 0);
  });
});

Deno.test("GET /agent/v1/media shows the files with their checks and who uses them", async () => {
  await withMedia(async (agent) => {
    const job = await jobIn(agent, "queued");
    await agent.store.media.use(HEX, T0, job);
    const { sha256: _, ...rest } = FILE;
    const expected = {
      digest: `sha256:${HEX}`,
      ...rest,
      path: `/nowhere/sha256-${HEX}/a.iso`,
      used_by: [job],
    };
    assertEquals(listOf(await agent.call("GET", "/agent/v1/media")), [expected]);
    for (const digest of [HEX, `sha256:${HEX}`, `sha256%3A${HEX.toUpperCase()}`]) {
      assertEquals(objectOf(await agent.call("GET", `/agent/v1/media/${digest}`)), expected);
    }
  });
});

Deno.test("GET, DELETE and verify of an unknown medium answer 404", async () => {
  await withMedia(async (agent) => {
    for (const digest of ["00".repeat(32), "x", "sha512:" + "0".repeat(128), "..%2f..", "%00"]) {
      const path = `/agent/v1/media/${digest}`;
      for (const [method, at] of [["GET", path], ["DELETE", path], ["POST", `${path}/verify`]]) {
        const body = method === "POST" ? {} : undefined;
        const answer = await agent.call(method ?? "", at ?? "", body);
        assertStringIncludes(assertRefused(answer, 404, "ResourceNotFound"), "Cannot find");
      }
    }
  });
});

Deno.test("DELETE /agent/v1/media/:digest refuses while a job uses the file", async () => {
  await withMedia(async (agent) => {
    const job = await jobIn(agent, "queued");
    await agent.store.media.use(HEX, T0, job);
    const path = `/agent/v1/media/${HEX}`;
    const message = assertRefused(await agent.call("DELETE", path), 409, "ConflictError");
    assertStringIncludes(message, job);
    await agent.call("POST", `/jobs/${job}/cancel`, {});
    assertEquals((await agent.call("DELETE", path)).status, 204);
    assertEquals((await agent.call("DELETE", path)).status, 404);
  });
});

Deno.test("POST /agent/v1/media/:digest/verify makes a job that reads the file again", async () => {
  await withMedia(async (agent) => {
    const answer = await agent.call("POST", `/agent/v1/media/${HEX}/verify`, {});
    assertEquals(answer.status, 202);
    const job = await agent.store.jobs.get(objectOf(answer).job_uuid as JobUuid);
    assertEquals(job?.params, { media: { known: `sha256:${HEX}` } });
    const more = await agent.call("POST", `/agent/v1/media/${HEX}/verify`, { deep: true });
    assertRefused(more, 409, "InvalidArgument");
  });
});

Deno.test("POST /agent/v1/media without its workflow answers 404", async () => {
  await withHttpAgent(async (agent) => {
    const answer = await agent.call("POST", "/agent/v1/media", URL_WISH);
    assertStringIncludes(assertRefused(answer, 404, "ResourceNotFound"), "its built-in workflow");
  });
});
