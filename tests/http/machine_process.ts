// An agent as a process with a simulated host, and a machine made on it, for journeys through a
// machine's life.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  type AgentProcess,
  type Answer,
  type Program,
  startAgentProcess,
} from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { machine } from "../domain/machine_request.ts";
import { isoBytes } from "../support/medium.ts";

/** Name of the medium in the agent's media folder. */
export const ISO = "install.iso";
const ISO_BYTES = 300 * 1024;

/** The description of document 3, as small as it may be. */
export const DESCRIPTION: JsonObject = {
  ...machine,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};

/** An agent whose host is simulated. */
export interface MachineAgent extends AgentProcess {
  /** Where media may be taken from; it holds `install.iso` and `image.raw`. */
  readonly media: string;
  /** Root of the zone of a machine. */
  zoneRoot(uuid: string): string;
  remove(path: string): Promise<Answer>;
  /** Makes a machine and waits until it runs. @returns its job */
  make(uuid: string, body?: JsonObject): Promise<JsonObject>;
  /** Asks for an action and waits for the end of its job. */
  act(uuid: string, action: string, body?: JsonObject): Promise<JsonObject>;
  /** The machine as GET shows it. */
  machine(uuid: string): Promise<JsonObject>;
  /** What the guest came up from, as the simulator tells. */
  guest(uuid: string): Promise<JsonObject>;
  /** Ends the process as a crash does, and starts another one in its place. */
  crash(): Promise<MachineAgent>;
}

/** Runs a journey, and ends the agent whatever happens. */
export async function withMachineAgent(
  program: Program,
  run: (agent: MachineAgent) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const media = join(await Deno.realPath(folder), "media");
    await Deno.mkdir(media);
    for (const name of [ISO, "image.raw"]) {
      await Deno.writeFile(join(media, name), isoBytes(ISO_BYTES));
    }
    const started: AgentProcess[] = [];
    const start = async (): Promise<MachineAgent> => {
      const flags = ["--host", "simulated", "--media-dir", media];
      const process = await startAgentProcess(program, join(folder, "state"), flags);
      started.push(process);
      return machineAgent(process, media, async () => {
        await process.kill();
        return await start();
      });
    };
    const agent = await start();
    try {
      await run(agent);
    } finally {
      const last = started.at(-1);
      assertEquals(await last?.stop(), 0, last?.log());
    }
  });
}

function machineAgent(
  agent: AgentProcess,
  media: string,
  crash: MachineAgent["crash"],
): MachineAgent {
  const path = (uuid: string) => `/agent/v1/machines/${uuid}`;
  const ended = async (answer: Answer): Promise<JsonObject> => {
    assertEquals([answer.status, answer.body], [202, answer.body]);
    return await agent.job(String(answer.body.job_uuid), "success", "failure");
  };
  const remove = async (path: string): Promise<Answer> => {
    const { status, headers, body } = await fetch(agent.url + path, { method: "DELETE" })
      .then(async (it) => ({ status: it.status, headers: it.headers, body: await it.json() }));
    return { status, headers, body };
  };
  return {
    ...agent,
    media,
    zoneRoot: (uuid) => join(agent.stateDir, "simulator/zones", uuid, "root"),
    remove,
    async make(uuid, body = {}) {
      const request = { uuid, machine: DESCRIPTION, media: { path: ISO }, ...body };
      const job = await ended(await agent.post("/agent/v1/machines", request));
      assertEquals([job.execution, job.chain_results], ["success", job.chain_results]);
      return job;
    },
    act: async (uuid, action, body = {}) =>
      await ended(
        action === "delete"
          ? await remove(path(uuid))
          : await agent.post(`${path(uuid)}/${action}`, body),
      ),
    machine: async (uuid) => (await agent.get(path(uuid))).body,
    guest: async (uuid) => JSON.parse((await agent.simulate("guest", uuid)).stdout),
    crash,
  };
}
