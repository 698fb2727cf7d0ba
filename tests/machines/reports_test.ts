// What an agent reports of its machines: when, and how much.

import { assertEquals, assertFalse } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { openLog } from "../../src/metrics/log.ts";
import { reportMachines } from "../../src/machines/reports.ts";
import { Notifier } from "../../src/runtime/notifier.ts";
import type { MachineReport } from "../../src/store/report_store.ts";
import { T0 } from "../support/job.ts";
import { until } from "../support/until.ts";

interface Scene {
  machines: JsonObject[];
  /** Whether the store takes what is reported. */
  taken: boolean;
  readonly reports: MachineReport[];
  /** Says that something has changed, and waits for the report. */
  again(): Promise<MachineReport | undefined>;
}

async function withReports(
  machines: JsonObject[],
  run: (scene: Scene) => Promise<void>,
): Promise<void> {
  const changed = new Notifier();
  let tries = 0;
  const scene: Scene = {
    machines,
    taken: true,
    reports: [],
    async again() {
      const before = tries;
      changed.notify();
      await until("the next report", () => tries > before);
      return scene.reports.at(-1);
    },
  };
  const reporting = reportMachines({
    reports: {
      report(report) {
        tries += 1;
        if (!scene.taken) return Promise.reject(new Error("the store is away"));
        scene.reports.push(report);
        return Promise.resolve();
      },
    },
    vmadm: { list: () => Promise.resolve(scene.machines) },
    changed,
    log: openLog({ level: "error", format: "json", write: () => {}, now: () => T0 }),
  });
  try {
    await until("the first report", () => scene.reports.length > 0);
    await run(scene);
  } finally {
    await reporting.stop();
  }
}

function machineOf(number: number, changes: JsonObject = {}): JsonObject {
  return { uuid: `machine-${number}`, state: "running", disks: [], nics: [], ...changes };
}

Deno.test("the first report lists every machine, and later ones only what has changed", async () => {
  await withReports([machineOf(1), machineOf(2)], async (scene) => {
    assertEquals(scene.reports, [{ machines: [machineOf(1), machineOf(2)], gone: null }]);
    assertEquals(await scene.again(), { machines: [], gone: [] });
    const stopped = machineOf(2, { state: "stopped" });
    scene.machines = [stopped, machineOf(3)];
    assertEquals(await scene.again(), { machines: [stopped, machineOf(3)], gone: ["machine-1"] });
  });
});

Deno.test("after a report that was refused, the next one lists every machine", async () => {
  await withReports([machineOf(1)], async (scene) => {
    scene.taken = false;
    await scene.again();
    scene.taken = true;
    assertEquals(await scene.again(), { machines: [machineOf(1)], gone: null });
  });
});

Deno.test("a report has only the fields that lists show, and no password", async () => {
  const secret = machineOf(1, {
    vnc_password: "opensesame",
    customer_metadata: { root_pw: "opensesame" },
    disks: [{ path: "/dev/1", size: 1, zfs_filesystem: "opensesame" }],
    nics: [{ mac: "0:1", ips: ["dhcp"], resolvers: ["opensesame"] }],
  });
  await withReports([secret], ({ reports }) => {
    assertFalse(JSON.stringify(reports).includes("opensesame"));
    assertEquals(reports[0]?.machines, [
      machineOf(1, { disks: [{ path: "/dev/1", size: 1 }], nics: [{ mac: "0:1", ips: ["dhcp"] }] }),
    ]);
    return Promise.resolve();
  });
});
