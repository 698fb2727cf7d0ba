// Machines that are made by an agent which is killed meanwhile. Each round makes one machine, hurts
// the agent, starts it again, and finds the machine whole or gone and the host clean.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { programOfRun, runProgram } from "../support/agent_process.ts";
import { until, withDeadline } from "../support/until.ts";
import { processesOf } from "./processes.ts";
import {
  beginAgent,
  type ChaosAgent,
  endAgent,
  killAgent,
  listOf,
  objectOf,
  startChaosAgent,
} from "./agent_under_chaos.ts";
import { isoBytes } from "../support/medium.ts";

/** Milliseconds of each phase of the simulated host, so that a kill finds something under way. */
const PHASE_MS = 80;
const MEDIUM_BYTES = 24 << 20;
const JOB_MS_MAX = 180_000;
const DEATH_MS_MAX = 180_000;
/** Ends of a job on the wire. */
const FINAL = ["success", "failure", "canceled"];

export type Brand = "kvm" | "bhyve";

/** What is asked for in one round. */
export interface Wanted {
  readonly uuid: string;
  readonly brand: Brand;
}

export interface RoundEnd {
  readonly execution: string;
  readonly error: string;
}

/** One host, with one agent after another. */
export class MachineRounds {
  readonly #program = programOfRun();
  readonly #folder: string;
  /** Where the agent and its host keep what they have. */
  readonly stateDir: string;
  #agent: ChaosAgent | undefined;

  constructor(folder: string) {
    this.#folder = folder;
    this.stateDir = join(folder, "state");
  }

  /** Makes the medium, and a host whose phases take their time. */
  async prepare(): Promise<void> {
    const media = join(this.#folder, "media");
    await Deno.mkdir(media);
    await Deno.mkdir(this.stateDir, { mode: 0o700 });
    await Deno.writeFile(join(media, "install.iso"), isoBytes(MEDIUM_BYTES));
    await this.simulate("engine");
    await this.#delay((delays) => {
      for (const phase of Object.keys(delays)) {
        if (phase !== "factor") delays[phase] = PHASE_MS;
      }
    });
  }

  /** Lets a phase take so long from the next call of vmadm on; the usual time when not given. */
  async slow(phase: string, ms = PHASE_MS): Promise<void> {
    await this.#delay((delays) => void (delays[phase] = ms));
  }

  async #delay(change: (delays: Record<string, number>) => void): Promise<void> {
    const file = join(this.stateDir, "simulator/host.json");
    const facts = JSON.parse(await Deno.readTextFile(file));
    change(facts.delays);
    await Deno.writeTextFile(file, JSON.stringify(facts));
  }

  /** Names of what lies in the pool. */
  async datasets(): Promise<string[]> {
    return (await this.simulate("zfs", "list")).split("\n").filter((name) => name !== "");
  }

  /** The agent that lives, started when there is none. */
  async agent(): Promise<ChaosAgent> {
    this.#agent ??= await startChaosAgent(this.#options());
    return this.#agent;
  }

  /** Kills the agent, and waits until it is dead. */
  async kill(): Promise<void> {
    if (this.#agent !== undefined) await killAgent(this.#agent);
    this.#agent = undefined;
  }

  /** Ends the agent and the vmadm that makes a machine for it at one moment, as a power loss does. */
  async cutPower(): Promise<void> {
    // It must not see what becomes of vmadm.
    this.#agent?.signal("SIGSTOP");
    const folder = join(this.stateDir, "simulator");
    const creates = processesOf([folder, "vmadm", "create"]);
    assertEquals(creates.length, 1, "One create was to be under way");
    for (const pid of creates) Deno.kill(pid, "SIGKILL");
    await this.kill();
    await until("vmadm to end", () => processesOf([folder, "vmadm", "create"]).length === 0);
  }

  /** Runs an agent that dies at a failpoint, and waits until it has. */
  async dieAt(failpoint: string, meanwhile: (agent: ChaosAgent) => Promise<void>): Promise<void> {
    await this.kill();
    const env = { ZONEWRIGHT_FAILPOINT: failpoint };
    const dying = beginAgent({ ...this.#options(), env });
    const agent = await dying.started;
    if ("url" in agent) await meanwhile(agent);
    const { signal } = await withDeadline(dying.ended, DEATH_MS_MAX, () => "the agent to die");
    assertEquals(signal, "SIGKILL", `The failpoint was not reached:\n${dying.log()}`);
  }

  /** Asks for a machine; undefined when the agent died before it answered. */
  async post(agent: ChaosAgent, { uuid, brand }: Wanted): Promise<string | undefined> {
    const machine = {
      brand,
      ram: 512,
      disks: [{ boot: true, model: "virtio", size: 1024 }],
      nics: [{ nic_tag: "admin", model: "virtio", ip: "dhcp", primary: true }],
    };
    const body = { uuid, machine, media: { path: "install.iso" } };
    const reply = await agent.call("POST", "/agent/v1/machines", body);
    if (reply === undefined) return undefined;
    const { job_uuid } = objectOf(reply);
    if (typeof job_uuid === "string") return job_uuid;
    throw new Error(`Asked for a machine, answered ${JSON.stringify(reply)}`);
  }

  /** Waits until a task has reported that it has begun. */
  async begun(agent: ChaosAgent, job: string, task: string): Promise<void> {
    await until(`task ${task} to begin`, async () => {
      const entries = listOf(await agent.ask("GET", `/jobs/${job}/info`));
      return entries.some((entry) => JSON.stringify(entry).includes(`"task":"${task}"`));
    }, JOB_MS_MAX);
  }

  /** Waits for the end of the job, and holds the host against it; removes the machine then. */
  async finish(wanted: Wanted, job: string | undefined): Promise<RoundEnd> {
    const agent = await this.agent();
    const uuid = job ?? await this.post(agent, wanted);
    const ended = await until(`job ${uuid} to end`, async () => {
      const body = objectOf(await agent.ask("GET", `/jobs/${uuid}`));
      const done = FINAL.includes(String(body.execution)) && (body.runner_id ?? null) === null;
      // A canceled job is final before it is undone.
      const undone = body.execution !== "canceled" ||
        Array.isArray(body.oncancel_results) && body.oncancel_results.length > 0;
      return done && undone ? body : null;
    }, JOB_MS_MAX).catch((cause) => {
      throw new Error(`${cause.message}\n${agent.log()}`, { cause });
    });
    const made = ended.execution === "success";
    await this.#expectHeld(made ? [wanted.uuid] : [], ended);
    if (made) await this.#expectConsole(wanted);
    if (made) await this.#remove(wanted.uuid);
    return { execution: String(ended.execution), error: lastError(ended) };
  }

  /** Fails unless the host holds no machine and nothing of one. */
  async expectNothing(): Promise<void> {
    await this.#expectHeld([], {});
  }

  /** Ends what is left of this host. */
  async end(): Promise<void> {
    if (this.#agent !== undefined) await endAgent(this.#agent);
    this.#agent = undefined;
    await this.simulate("stop-all");
  }

  async simulate(...words: string[]): Promise<string> {
    const args = ["simulate", "--state", join(this.stateDir, "simulator"), ...words];
    return (await runProgram(this.#program, args)).stdout;
  }

  #options() {
    const media = join(this.#folder, "media");
    const flags = ["--dev", "--media-dir", media, "--index-interval", "off"];
    return { program: this.#program, stateDir: this.stateDir, flags };
  }

  async #expectHeld(uuids: readonly string[], job: JsonObject): Promise<void> {
    const about = () => `after a job that ended as ${JSON.stringify(job)}`;
    const { leftovers } = JSON.parse(await this.simulate("audit"));
    assertEquals(leftovers, [], about());
    const listed = (await this.simulate("vmadm", "lookup")).split("\n").filter((it) => it !== "");
    assertEquals(listed, uuids, about());
    const zones = Array.from(Deno.readDirSync(join(this.stateDir, "simulator/zones")));
    assertEquals(zones.map(({ name }) => name), uuids, about());
  }

  /** Makes room for the next round. */
  async #remove(uuid: string): Promise<void> {
    const folder = join(this.stateDir, "simulator");
    const args = ["simulate", "--state", folder, "vmadm", "delete", uuid];
    const { code, stderr } = await runProgram(this.#program, args);
    assertEquals([code, stderr], [0, `Successfully deleted VM ${uuid}\n`]);
    await this.#expectHeld([], { removed: uuid });
  }

  /** The machine has come up from its medium, and its console introduces itself. */
  async #expectConsole({ uuid }: Wanted): Promise<void> {
    const guest = JSON.parse(await this.simulate("guest", uuid));
    assertEquals(guest.booted, { kind: "cd", path: "/install.iso" });
    const root = join(this.stateDir, "simulator/zones", uuid, "root");
    assertEquals((await Deno.stat(join(root, "install.iso"))).size, MEDIUM_BYTES);
    assertEquals([...Deno.readDirSync(root)].map(({ name }) => name).sort(), [
      "etc",
      "install.iso",
      "tmp",
      "var",
    ]);
    const { vnc } = JSON.parse(await this.simulate("vmadm", "info", uuid, "vnc"));
    using conn = await Deno.connect({ hostname: vnc.host, port: vnc.port });
    const banner = new Uint8Array(12);
    await conn.read(banner);
    assertEquals(new TextDecoder().decode(banner), "RFB 003.008\n");
  }
}

function lastError(job: JsonObject): string {
  const results = Array.isArray(job.chain_results) ? job.chain_results : [];
  const last = results.at(-1);
  return isJsonObject(last) && last.error !== "" ? JSON.stringify(last.error) : "";
}
