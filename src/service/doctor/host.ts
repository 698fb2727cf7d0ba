// The managed host: whether its programs answer, and whether machines were left over that no job
// stands for.

import { isJsonObject } from "../../domain/json.ts";
import type { MachineUuid } from "../../domain/id.ts";
import type { Transport } from "../../host/transport.ts";
import type { Vmadm } from "../../host/vmadm/vmadm.ts";
import { mapLimited } from "../../program/loop.ts";
import { readExecutions, readLeft } from "../../store/sqlite/database_file.ts";
import type { ActAs } from "../../state/own_file.ts";
import { type Check, type Finding, ok, skipped } from "./check.ts";
import { statOf } from "./place.ts";

/** Machines that are looked at one by one. */
const MACHINES_MAX = 500;
const MACHINES_AT_A_TIME = 4;
/** The tag by which a machine names the job that made it. */
const JOB_TAG = "zonewright_job";

/** The program that makes machines. */
export function vmadmCheck(transport: Transport, vmadm: Vmadm, program: string): Check {
  return {
    name: "vmadm",
    about: "vmadm is there and answers",
    async examine() {
      if (transport.kind === "local" && await statOf(program) === undefined) {
        return {
          outcome: "fail",
          detail: `${program} is missing: this is no global zone of SmartOS`,
          fix: "run it there, or manage one with --host ssh://root@host",
        };
      }
      const machines = await vmadm.list();
      return ok(`${transport.kind}: ${machines.length} machines`);
    },
  };
}

/** The folder below which every zone lies. */
export function zonesCheck(transport: Transport): Check {
  return {
    name: "zones",
    about: "the folder of the zones is there",
    async examine() {
      const { kind, zonesRoot } = transport;
      if (kind === "ssh") return skipped(`${zonesRoot} is on another machine`);
      const found = await statOf(zonesRoot);
      if (found?.isDirectory) return ok(zonesRoot);
      if (kind === "simulated") return ok(`${zonesRoot} is made with the first machine`);
      return { outcome: "fail", detail: `${zonesRoot} is no folder`, fix: "name it with --zones" };
    },
  };
}

/**
 * Machines whose job failed or was canceled, and datasets without one: undoing did not succeed.
 * @param asOwner as whom the database is read; vmadm is run as who this process is
 */
export function leftoversCheck(vmadm: Vmadm, database: string, asOwner: ActAs): Check {
  return {
    name: "leftovers",
    about: "nothing is left on the host that a failed job should have removed",
    async examine(): Promise<Finding> {
      if (await statOf(database) === undefined) return skipped("no job was ever made");
      const listed = (await vmadm.list()).slice(0, MACHINES_MAX);
      const owners = new Map<string, string>();
      await mapLimited(listed, MACHINES_AT_A_TIME, async ({ uuid }) => {
        if (typeof uuid !== "string") return;
        const machine = await vmadm.get(uuid as MachineUuid);
        const job = isJsonObject(machine?.tags) ? machine.tags[JOB_TAG] : undefined;
        if (typeof job === "string") owners.set(uuid, job);
      });
      const executions = await asOwner(() => readExecutions(database, [...owners.values()]));
      const left = [...owners].filter(([, job]) =>
        ["failed", "canceled"].includes(executions.get(job) ?? "")
      );
      const named = new Map(
        left.map(([uuid, job]) => [uuid, `job ${job}: ${executions.get(job)}`]),
      );
      // Of some there may be datasets only, which vmadm does not show.
      const owed = await asOwner(() => readLeft(database));
      for (const { uuid, job_uuid, execution } of owed) {
        named.set(uuid, `job ${job_uuid}: ${execution}`);
      }
      if (named.size === 0) return ok(`${owners.size} machines of the agent`);
      const told = [...named].map(([uuid, job]) => `${uuid} (${job})`).join(", ");
      const fix = owed.length > 0
        ? "the agent tries again: GET /agent/v1/leftovers tells when, and why it failed"
        : `zonewright machine delete ${left[0]?.[0]}`;
      return { outcome: "warn", detail: `left over: ${told}`, fix };
    },
  };
}
