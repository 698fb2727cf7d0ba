// An agent that is stopped while its tasks work: the guest of a free job ends without it, and another host begins the
// job again; a command of a bound job may end, and no other begins before the lease is renewed.

import { assert, assertEquals } from "@std/assert";
import type { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { changeHost, openState, readJson } from "../../src/simulator/host_folder.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { newJob, untilHost, withHosts } from "../support/hosts.ts";
import { postgresTest } from "../support/postgres.ts";
import { cpuOfChildren, isRunning } from "../support/processes.ts";
import { until } from "../support/until.ts";

/** Its first attempt never ends by itself. */
const LOOPS = {
  name: "loops",
  placement: "any",
  chain: [{ body: "(job, cb) => { while (job.attempt === 1); cb(null, job.attempt); }" }],
};
/** Ticks of processor time that only a task in a loop takes. */
const LOOP_TICKS = 200;

const MACHINE = "10000000-0000-4000-8000-000000000001";
const PAYLOAD = {
  uuid: MACHINE,
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};
const BOOTS = {
  name: "boots",
  chain: [
    { body: `(job, cb) => vmadm.create(${JSON.stringify(PAYLOAD)}).then(() => cb())` },
    {
      body: `(job, cb) => vmadm.boot("${MACHINE}", { watch: 0 })
        .then(() => vmadm.update("${MACHINE}", { alias: "renamed" })).then(() => cb())`,
    },
  ],
};
/** Milliseconds of a boot that ends when the test says so. */
const LONG_MS = 600_000;
/** What the renewal of a host writes first. */
const LEASE_OF = `SELECT FROM runners WHERE runner_id =
  (SELECT uuid FROM hosts WHERE name = $1) FOR UPDATE`;
/** Waits that began after something, and last. */
const WAITING = `SELECT count(*)::integer AS count FROM pg_locks WHERE NOT granted
  AND waitstart > $2::timestamptz AND waitstart < clock_timestamp() - make_interval(secs => $1)`;
/** Less than the renewal waits before it tries again. */
const WAIT_SECONDS = 1.5;

postgresTest(
  "a free job in an endless loop ends with a stopped agent, and has one result, that of another host",
  () =>
    withHosts(async ({ one, other }) => {
      const job = await newJob(one, "/a", "running", LOOPS);
      const begun = (await other.get(`/jobs/${job}`)).body;
      const [holder, next] = begun.host === "gz01" ? [one, other] : [other, one];
      const guest = await until("the guest to loop", async () => {
        const times = [...await cpuOfChildren(holder.stateDir)];
        return times.find(([, ticks]) => ticks > LOOP_TICKS)?.[0];
      });
      holder.signal("SIGSTOP");
      try {
        await until("the guest to end", () => !isRunning(guest));
        const ended = await next.job(job, "success");
        assert(ended.host_uuid !== begun.host_uuid);
        const [entry, ...more] = ended.chain_results as { result: unknown; attempts: unknown }[];
        assertEquals([entry?.result, entry?.attempts, more], [2, 1, []]);
        holder.signal("SIGCONT");
        await holder.said("process was suspended");
        await untilHost(next, String(begun.host), "connected");
        // Its slot is free again: it claims what comes after.
        await newJob(holder, "/b", "success", {
          name: "quick",
          chain: [{ body: "(job, cb) => cb()" }],
        });
        assertEquals((await holder.get(`/jobs/${job}`)).body, ended);
        assertEquals(linesOf(holder, job), []);
      } finally {
        holder.signal("SIGCONT");
      }
    }),
);

/** What an agent has logged of the end of a job or of its tasks. */
function linesOf(agent: AgentProcess, job: string): string[] {
  const ends = /"(task ended|attempt failed|job finished)"/;
  return agent.log().split("\n").filter((line) => line.includes(job) && ends.test(line));
}

postgresTest(
  "an agent that stood still in a command of a bound job begins no other before its lease is renewed",
  () =>
    withHosts(async ({ one, other, db }) => {
      const host = await openState(`${one.stateDir}/simulator`);
      const machine = async () => await readJson(`${host.dir}/machines/${MACHINE}.json`);
      const boots = (ms: number) => changeHost(host, { delays: { ...host.host.delays, boot: ms } });
      const left = async () => (await readJson(`${host.dir}/faults.json`))?.noise_stderr;
      const isIn = (state: string) =>
        until(`the machine to be ${state}`, async () => (await machine())?.state === state);
      await boots(LONG_MS);
      const job = await newJob(one, "/a", "running", BOOTS);
      await isIn("ready");
      one.signal("SIGSTOP");
      try {
        await untilHost(other, "gz01", "away");
        // The command that looks what has become of a boot takes it away.
        assertEquals((await one.simulate("fault", "noise_stderr", "lookup", "1")).code, 0);
        await holding(db, LEASE_OF, "gz01", async () => {
          one.signal("SIGCONT");
          await boots(0);
          await isIn("running");
          const since = await db.read((tx) => Promise.resolve(tx.now));
          await until("the renewal to wait longer than a command takes", async () => {
            const [waits] = await db.read((tx) =>
              tx.rows<{ count: number }>(WAITING, WAIT_SECONDS, since)
            );
            return waits?.count === 1;
          });
          assert(await left() !== undefined, "a command has begun");
        });
        const ended = await other.job(job, "success");
        assertEquals((ended.chain_results as unknown[]).length, 2);
        assertEquals(await left(), undefined);
      } finally {
        one.signal("SIGCONT");
      }
    }, (name) => name === "gz01" ? ["--store-deadline", "10"] : []),
);

/** Runs while a transaction holds rows. @param sql locks them */
async function holding(
  db: SharedDatabase,
  sql: string,
  value: string,
  run: () => Promise<void>,
): Promise<void> {
  const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holder = db.write(async (tx) => {
    assertEquals((await tx.rows(sql, value)).length, 1);
    held.resolve();
    await release.promise;
  });
  try {
    await Promise.race([held.promise, holder]);
    await run();
  } finally {
    release.resolve();
    await holder;
  }
}
