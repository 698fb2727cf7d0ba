// The suite's part on the jobs of machines, as lists show them.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid, WorkflowUuid } from "../../src/domain/id.ts";
import type { NewJob } from "../../src/domain/job/job.ts";
import { machineTarget } from "../../src/domain/job/summary.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { MachinePage } from "../../src/store/machine_store.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, resultOf, RUNNER, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { claimJobs } from "../support/clocked_store.ts";
import { create, finish, recordOf, run, type Test } from "./store_case.ts";

const [MAKE, EJECT, REMOVE, BOOT] = [1, 2, 3, 4].map((number) => uuidOf<WorkflowUuid>(number)) as [
  WorkflowUuid,
  WorkflowUuid,
  WorkflowUuid,
  WorkflowUuid,
];
const WORKFLOWS = { make: MAKE, eject: EJECT, remove: REMOVE };
const [WEB, DB] = [71, 72].map((number) => uuidOf<MachineUuid>(number)) as [
  MachineUuid,
  MachineUuid,
];
const PAGE = { limit: 10, offset: 0, without: [] };

/** A job of one task on a machine. */
function jobOn(
  machine_uuid: MachineUuid,
  number: number,
  uuid: WorkflowUuid,
  params: JsonObject = {},
): NewJob {
  const workflow = workflowOf({ uuid, chain: [taskOf("first")] });
  return jobOf(number, { workflow, params, machine_uuid, target: machineTarget(machine_uuid) });
}

const ASKED = {
  machine: { alias: "web\u0000\ud800", brand: "kvm", disks: [{ size: 5 }], tags: { a: 1 } },
  media: { url: "https://iso.example.com/a.iso" },
  other: 1,
};
/** Properties that no request has named are null. */
const SHOWN = {
  machine: {
    brand: "kvm",
    ram: null,
    vcpus: null,
    owner_uuid: null,
    disks: [{ size: 5 }],
    nics: null,
  },
  media: ASKED.media,
};

/** What is said of a job, with the alias apart: stores differ in what they replace in it. */
async function saidOf(store: Store, ...machines: MachineUuid[]) {
  const jobs = await store.machineHistories.of(machines.map(machineTarget), WORKFLOWS);
  return jobs.map(({ uuid, machine_uuid, execution, asked, placed, ejected }) => {
    const { machine, ...others } = asked as { machine?: JsonObject };
    const { alias: _, ...rest } = machine ?? {};
    const shown = machine === undefined ? asked : { machine: rest, ...others };
    return { uuid, machine_uuid, execution, shown, placed, ejected };
  });
}

export function machineHistoryTests(test: Test): void {
  test("the jobs of several machines are read at once, newest first, without other workflows", async (store) => {
    const made = await run(store, jobOn(WEB, 1, MAKE, ASKED));
    await store.jobs.recordTask(
      recordOf(made, { kind: "succeed" }, { params: ASKED, props: { medium_file: "/a.iso" } }),
    );
    await finish(store, await run(store, jobOn(WEB, 2, BOOT)));
    const ejecting = await run(store, jobOn(WEB, 3, EJECT));
    const entry = resultOf("first", { result: { files: ["/a.iso", 1] } });
    await store.jobs.recordTask(recordOf(ejecting, { kind: "succeed" }, { entry }));
    await finish(store, await run(store, jobOn(WEB, 4, REMOVE)), "failed");
    await create(store, jobOn(DB, 5, MAKE));
    const [web, none] = [{ machine_uuid: WEB, placed: null, ejected: [] }, {}];
    assertEquals(await saidOf(store, WEB, DB, uuidOf<MachineUuid>(73)), [
      {
        uuid: uuidOf<JobUuid>(5),
        machine_uuid: DB,
        execution: "queued",
        shown: {
          media: null,
          machine: {
            brand: null,
            ram: null,
            vcpus: null,
            owner_uuid: null,
            disks: null,
            nics: null,
          },
        },
        placed: null,
        ejected: [],
      },
      { ...web, uuid: uuidOf<JobUuid>(4), execution: "failed", shown: none },
      {
        ...web,
        uuid: uuidOf<JobUuid>(3),
        execution: "succeeded",
        shown: none,
        ejected: ["/a.iso"],
      },
      { ...web, uuid: made.uuid, execution: "succeeded", shown: SHOWN, placed: "/a.iso" },
    ]);
    assertEquals(await saidOf(store), []);
  });

  test("machines that are only being made are found by page, filter and count", async (store) => {
    for (let number = 1; number <= 4; number++) {
      const machine = { alias: `web${number}`, brand: number === 4 ? "bhyve" : "kvm" };
      await create(store, jobOn(uuidOf<MachineUuid>(100 + number), number, MAKE, { machine }));
    }
    await create(store, jobOn(WEB, 5, BOOT));
    const found = async (
      filter: { brand?: string; alias?: string },
      page: Partial<MachinePage> = {},
    ) => {
      const { jobs, count } = await store.machineHistories.making(MAKE, filter, {
        ...PAGE,
        ...page,
      });
      return [jobs.map(({ uuid }) => Number(uuid.slice(-4))), count];
    };
    assertEquals(await found({}), [[4, 3, 2, 1], 4]);
    assertEquals(await found({}, { limit: 2, offset: 1 }), [[3, 2], 4]);
    assertEquals(await found({}, { limit: 0 }), [[], 4]);
    assertEquals(await found({ brand: "kvm" }, { limit: 1 }), [[3], 3]);
    assertEquals(await found({ alias: "web1" }), [[1], 1]);
    assertEquals(await found({ alias: "web1\0" }), [[], 0]);
    assertEquals(await found({}, { without: [uuidOf<MachineUuid>(102)] }), [[4, 3, 1], 3]);
    // The oldest is claimed first.
    const [job] = await claimJobs(store, RUNNER, 1);
    assert(job !== undefined);
    await finish(store, job);
    assertEquals(await found({}), [[4, 3, 2], 3]);
  });
}
