// A machine on the simulated host of an agent under load.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { machine } from "../domain/machine_request.ts";
import { until } from "../support/until.ts";
import { type ChaosAgent, objectOf } from "./agent_under_chaos.ts";
import { isoBytes } from "../support/medium.ts";

/** The medium, in the media folder of an agent under load. */
const ISO = "install.iso";
const ISO_BYTES = 300 * 1024;
const MACHINE: JsonObject = {
  ...machine,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};
const MACHINE_MS_MAX = 180_000;
/** Ends of a job on the wire. */
export const FINAL = ["success", "failure", "canceled"];

/** Makes the medium. @returns the flags by which an agent finds it */
export async function prepareMedium(folder: string): Promise<string[]> {
  const media = join(folder, "media");
  await Deno.mkdir(media);
  await Deno.writeFile(join(media, ISO), isoBytes(ISO_BYTES));
  return ["--media-dir", media];
}

/** Makes a machine and waits until it runs. @returns its uuid */
export async function makeMachine(agent: ChaosAgent): Promise<string> {
  const request = { machine: MACHINE, media: { path: ISO } };
  const posted = await agent.ask("POST", "/agent/v1/machines", request);
  const { uuid, job_uuid } = objectOf(posted);
  const job = await until("the machine to run", async () => {
    const read = objectOf(await agent.ask("GET", `/jobs/${job_uuid}`));
    return FINAL.includes(String(read.execution)) ? read : undefined;
  }, MACHINE_MS_MAX);
  assertEquals(job.execution, "success", JSON.stringify(job.chain_results));
  return String(uuid);
}
