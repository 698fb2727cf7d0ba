// Tasks do not start more programs of the host at a time than it bears.

import { assert, assertEquals } from "@std/assert";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { CHANGES_AT_ONCE, openCapabilities } from "../../src/capabilities/capabilities.ts";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import type { TaskPerform } from "../../src/sandbox/task_calls.ts";
import type { Transport } from "../../src/host/transport.ts";
import {
  openVmadm,
  READS_AT_ONCE,
  READS_AT_ONCE_MAX,
  withReadTurns,
} from "../../src/host/vmadm/vmadm.ts";
import { CALLS_IN_FLIGHT_MAX, type CapabilityName } from "../../src/wall/protocol.ts";
import { jobOf, T0 } from "../support/job.ts";
import { type SimulatedHost, withHost } from "./simulated_host.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** The host's vmadm, with the count of its processes. */
function counted(transport: Transport) {
  const count = { now: 0, most: 0 };
  const vmadm: Transport["vmadm"] = async (args, options) => {
    count.now += 1;
    count.most = Math.max(count.most, count.now);
    try {
      return await transport.vmadm(args, options);
    } finally {
      count.now -= 1;
    }
  };
  return { count, transport: { ...transport, vmadm } };
}

interface Tasks {
  readonly count: { readonly now: number; readonly most: number };
  /** What the task of the job with this number may call. */
  task(number: number, signal?: AbortSignal): Promise<TaskPerform>;
}

function openTasks(
  { store, transport: own, mirror, log, mediaDir }: SimulatedHost,
  slots = 1,
): Tasks {
  const { count, transport } = counted(own);
  const performFor = openCapabilities({
    vmadm: openVmadm(transport),
    transport,
    mirror,
    store,
    policy: DEFAULT_POLICY,
    mediaDirs: [mediaDir],
    slots,
    limits: DEFAULT_LIMITS,
    log,
    now: () => T0,
  });
  return {
    count,
    async task(number, signal = new AbortController().signal) {
      const job = jobOf(number);
      await store.jobs.create(job, NO_LIMIT);
      return performFor({ job_uuid: job.uuid, task_name: "t", signal });
    },
  };
}

const machine = (number: number) => `11111111-1111-4111-8111-${String(number).padStart(12, "0")}`;

/** As many calls at once as one task may have under way, and how each of them ends. */
async function callAll(perform: TaskPerform, name: CapabilityName): Promise<string[]> {
  const { signal } = new AbortController();
  const calls = Array.from({ length: CALLS_IN_FLIGHT_MAX }, (_, number) => {
    return perform(name, name === "vmadm.list" ? [] : [machine(number)], signal);
  });
  const ends = await Promise.allSettled(calls);
  return ends.map((end) => end.status === "rejected" ? end.reason.code : "ok");
}

Deno.test("simultaneous requests for machines start few processes, and all are answered", async () => {
  await withHost(async ({ transport: own }) => {
    const { count, transport } = counted(own);
    const vmadm = withReadTurns(openVmadm(transport), 1);
    const looks = Array.from({ length: 10 }, (_, number) => {
      const uuid = parseUuid<MachineUuid>(machine(number), "uuid");
      return [vmadm.list(), vmadm.get(uuid), vmadm.infoVnc(uuid), vmadm.vncConsole(uuid)];
    }).flat();
    const ends = await Promise.allSettled(looks);
    assertEquals(ends.length, 40);
    assertEquals(count.now, 0);
    assert(count.most <= READS_AT_ONCE, `${count.most} processes at once`);
  });
});

Deno.test("tasks that read machines simultaneously start few processes, and all are answered", async () => {
  await withHost(async (host) => {
    const { count, task } = openTasks(host);
    const all = await Promise.all([
      callAll(await task(1), "vmadm.list"),
      callAll(await task(2), "vmadm.get"),
    ]);
    assertEquals(new Set(all.flat()), new Set(["ok"]));
    assertEquals(count.most, READS_AT_ONCE);
  });
});

Deno.test("each slot can read machines without waiting for other slots, up to a limit", async () => {
  for (const [slots, most] of [[10, 10], [READS_AT_ONCE_MAX + 1, READS_AT_ONCE_MAX]] as const) {
    await withHost(async (host) => {
      const { count, task } = openTasks(host, slots);
      assertEquals(new Set(await callAll(await task(1), "vmadm.get")), new Set(["ok"]));
      assertEquals(count.most, most);
    });
  }
});

Deno.test("a task that makes many changes at once starts few processes, and all are answered", async () => {
  await withHost(async (host) => {
    const { count, task } = openTasks(host);
    assertEquals(new Set(await callAll(await task(1), "vmadm.stop")), new Set(["not_found"]));
    assertEquals(count.most, CHANGES_AT_ONCE);
  });
});

Deno.test("calls that wait for their turn end with their task", async () => {
  await withHost(async (host) => {
    const { count, task } = openTasks(host);
    const over = new AbortController();
    const perform = await task(1, over.signal);
    const ends = callAll(perform, "vmadm.delete");
    over.abort();
    assertEquals(new Set(await ends), new Set(["aborted"]));
    assert(count.most <= CHANGES_AT_ONCE);
    assertEquals(count.now, 0);
  });
});
