// The suite's part on where jobs run: on the host that their params name, else on that of the store; or on any.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { Showing } from "../../src/store/stored_text.ts";
import type { Store } from "../../src/store/store.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, OTHER_RUNNER, RUNNER, T0, uuidOf, workflowOf } from "../support/job.ts";
import { register } from "./host_suite.ts";
import { create, JOB, present, recordOf, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const SHOWING: Showing = { wording: "document", now: T0, masksSecrets: false };
export const FREE = { workflow: { ...workflowOf(), placement: "any" as const } };

/** A job as its answer shows it. */
export async function shown(store: Store, uuid: JobUuid = JOB): Promise<Record<string, unknown>> {
  const text = await store.jobs.text(uuid, SHOWING);
  assert(text !== undefined);
  const parts = await Promise.all(
    text.parts.map((part) => part instanceof Uint8Array ? part : part.read(0, part.bytes)),
  );
  return JSON.parse(await new Blob(parts.map((part) => new Uint8Array(part))).text());
}

export function placeTests(test: Test): void {
  test("a job that names its host by uuid or name is that host's, and its answer says so", async (store) => {
    await register(store);
    const names = [RUNNER, RUNNER.toUpperCase(), "gz01"];
    for (const [index, server_uuid] of names.entries()) {
      const job = await create(store, jobOf(index + 1, { params: { server_uuid } }));
      assertEquals([job.host, job.params], [RUNNER, { server_uuid }]);
      const { host, host_uuid, host_state } = await shown(store, job.uuid);
      assertEquals([host, host_uuid, host_state], ["gz01", RUNNER, undefined]);
      const summary = await store.jobs.summary(job.uuid);
      assertEquals(summary?.host, { uuid: RUNNER, name: "gz01", state: "connected" });
    }
    assertEquals(await store.jobs.count({ host: RUNNER }), names.length);
    assertEquals(await store.jobs.count({ host: OTHER_RUNNER }), 0);
    assertEquals((await store.jobs.list({ host: RUNNER }, { limit: 2 })).length, 2);
  });
  test("a job for a host that is not registered is refused, and nothing is written", async (store) => {
    await register(store);
    for (const server of [OTHER_RUNNER, "gz02", "", "\0", 7, ["gz01"]]) {
      const outcome = await store.jobs.create(
        jobOf(1, { params: { server_uuid: server } }),
        NO_LIMIT,
      );
      assertEquals(outcome, {
        kind: "no_host",
        host: typeof server === "string" ? server : JSON.stringify(server),
        reason: "unknown",
      });
    }
    assertEquals(await store.jobs.count({}), 0);
    assertEquals(
      (await store.jobs.create(jobOf(1, { params: { server_uuid: null } }), NO_LIMIT)).kind,
      "created",
    );
  });
  test("the host named in params is ignored when params are compared", async (store) => {
    await register(store);
    await create(store, jobOf(1, { target: "/t", params: { a: 1 } }));
    const named = jobOf(2, { target: "/t", params: { a: 1, server_uuid: "gz01" } });
    assertEquals(await store.jobs.create(named, NO_LIMIT), { kind: "duplicate", job_uuid: JOB });
    assertEquals(
      (await store.jobs.create({ ...named, params: { ...named.params, a: 2 } }, NO_LIMIT)).kind,
      "created",
    );
  });
  test("a job for a cordoned host is accepted, and its answer says so", async (store) => {
    await register(store);
    await store.hosts.cordon(RUNNER);
    const job = await create(store, jobOf(1, { params: { server_uuid: "gz01" } }));
    assertEquals((await shown(store, job.uuid)).host_state, "cordoned");
    assertEquals((await store.jobs.summary(job.uuid))?.host?.state, "cordoned");
  });
  test("a job of a workflow for any host ignores the host in its params, and stays free after a host has run it", async (store) => {
    await register(store);
    const life = lifeOf(RUNNER);
    // A host that it names does not bind it.
    await create(store, jobOf(1, { ...FREE, params: { server_uuid: "nowhere" } }));
    assertEquals((await shown(store)).placement, "any");
    assertEquals((await store.jobs.summary(JOB))?.free, true);
    const [job] = (await store.jobs.claim(life, 1)).jobs;
    assert(job !== undefined);
    assertEquals([job.host, job.props.placement], [RUNNER, "any"]);
    const { host, host_uuid } = await shown(store);
    assertEquals([host, host_uuid], ["gz01", RUNNER]);
    // No task changes that.
    await store.jobs.recordTask(
      recordOf(job, { kind: "cb_queue" }, { props: { placement: "any", mine: 1 } }),
    );
    const again = await store.jobs.claim(life, 1, "free");
    assertEquals(again.jobs.map(({ uuid }) => uuid), [JOB]);
    assertEquals((await present(store)).host, RUNNER);
  });
  test("the successor of a job, and a job that is made again, are placed as it was", async (store) => {
    await register(store);
    const { host } = await create(store, jobOf(1));
    const [job] = (await store.jobs.claim(lifeOf(RUNNER), 1)).jobs;
    assert(job !== undefined);
    await store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { successor: jobOf(2) }));
    assertEquals((await present(store, uuidOf<JobUuid>(2))).host, host);
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    const outcome = await store.jobs.retry(uuidOf<JobUuid>(2), jobOf(3), NO_LIMIT);
    assert(outcome.kind === "created");
    assertEquals(outcome.job.host, host);
  });
  test("where one host has the store, a server_uuid of another inventory refuses no successor and no retry", async (store) => {
    await register(store);
    const params = { server_uuid: "of-some-inventory" };
    await create(store, jobOf(1));
    const [job] = (await store.jobs.claim(lifeOf(RUNNER), 1)).jobs;
    assert(job !== undefined);
    const successor = jobOf(2, { params });
    await store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { params, successor }));
    const next = await store.jobs.get(uuidOf<JobUuid>(2));
    if (store.shared) return assertEquals(next, undefined);
    assertEquals(next?.params, params);
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    const again = await store.jobs.retry(uuidOf<JobUuid>(2), jobOf(3, { params }), NO_LIMIT);
    assertEquals(again.kind, "created");
  });
  test("the successor of a free job whose workflow is bound meanwhile is that of the host that ran it", async (store) => {
    await register(store);
    await create(store, jobOf(1, FREE));
    const [job] = (await store.jobs.claim(lifeOf(RUNNER), 1)).jobs;
    assert(job !== undefined);
    await store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { successor: jobOf(2) }));
    const { host, props } = await present(store, uuidOf<JobUuid>(2));
    assertEquals([host, props.placement], [RUNNER, undefined]);
  });
}
