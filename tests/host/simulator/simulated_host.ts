// A simulated host for one test, driven as the agent drives it: as a program, with nothing in its
// environment. Whatever the test does, no process of it remains.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../../src/domain/json.ts";
import { type FAULTS, setFault } from "../../../src/simulator/fault.ts";
import { isAlive } from "../../../src/simulator/machine.ts";
import { namesIn, openState } from "../../../src/simulator/host_folder.ts";
import { until, withFolder } from "../../support/until.ts";
import { selfOfRun } from "../../support/agent_process.ts";

export interface Said {
  readonly code: number;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface SimulatedHost {
  readonly dir: string;
  /** Runs `simulate --state DIR ...args`. */
  run(args: readonly string[], stdin?: string): Promise<Said>;
  /** Runs `simulate --state DIR vmadm ...args`. */
  vmadm(args: readonly string[], stdin?: string): Promise<Said>;
  /** Starts a call that is not waited for. */
  start(args: readonly string[]): Deno.ChildProcess;
  /** Creates a machine of a payload and expects success. */
  create(payload: JsonObject): Promise<void>;
  /** Puts a file into the zone root. */
  place(uuid: string, name: string): Promise<void>;
  get(uuid: string): Promise<JsonObject>;
  vncPort(uuid: string): Promise<number>;
}

export const UUID = "0fd62f6f-3c48-4b9e-a2b5-1d0a75f8e7c1";
export const OTHER = "8a5b4d19-7c55-4c2c-9a3e-6f4f1c0e2b90";

/** The description of document 3, with a uuid. */
export function payload(changes: JsonObject = {}): JsonObject {
  return {
    uuid: UUID,
    brand: "kvm",
    alias: "web01",
    vcpus: 1,
    autoboot: false,
    ram: 1024,
    resolvers: ["203.0.113.53"],
    disks: [{ boot: true, model: "virtio", size: 40960 }],
    nics: [{
      nic_tag: "external",
      model: "virtio",
      ip: "192.0.2.51",
      netmask: "255.255.255.0",
      gateway: "192.0.2.1",
      primary: 1,
    }],
    ...changes,
  };
}

/** A payload of another machine that collides with nothing. */
export function otherPayload(changes: JsonObject = {}): JsonObject {
  return payload({ uuid: OTHER, alias: "web02", nics: [], ...changes });
}

/** Runs a test with a new simulated host, whose facts in host.json may differ from the defaults. */
export async function withHost(
  test: (host: SimulatedHost) => Promise<void>,
  facts?: JsonObject,
): Promise<void> {
  await withFolder(async (dir) => {
    if (facts !== undefined) {
      const whole = { uuid: "4d2c1f0e-9b8a-4765-8321-0fedcba98765", ...facts };
      await Deno.writeTextFile(join(dir, "host.json"), JSON.stringify(whole));
    }
    const host = openHost(dir);
    try {
      await test(host);
    } finally {
      if ((await liveMachines(dir)).length > 0) await host.run(["stop-all"]);
      assertEquals(await liveMachines(dir), []);
    }
  });
}

function openHost(dir: string): SimulatedHost {
  const run = (args: readonly string[], stdin?: string) =>
    finish(spawn(dir, args, stdin !== undefined), stdin);
  const vmadm = (args: readonly string[], stdin?: string) => run(["vmadm", ...args], stdin);
  const get = async (uuid: string) => JSON.parse((await vmadm(["get", uuid])).stdout);
  return {
    dir,
    run,
    vmadm,
    start: (args) => spawn(dir, args, false),
    create: async (payload) => {
      const said = await vmadm(["create"], JSON.stringify(payload));
      assertEquals(said.stderr, `Successfully created VM ${payload.uuid}\n`);
      assertEquals(said.code, 0);
    },
    place: (uuid, name) => Deno.writeTextFile(join(dir, "zones", uuid, "root", name), name),
    get,
    vncPort: (uuid) =>
      until("a VNC port", async () => {
        const { stdout } = await vmadm(["info", uuid, "vnc"]);
        const { vnc } = JSON.parse(stdout);
        return typeof vnc.port === "number" ? Number(vnc.port) : null;
      }),
  };
}

function spawn(dir: string, args: readonly string[], input: boolean): Deno.ChildProcess {
  const self = selfOfRun();
  return new Deno.Command(self.program, {
    args: [...self.args, "simulate", "--state", dir, ...args],
    clearEnv: true,
    env: self.env,
    stdin: input ? "piped" : "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function finish(child: Deno.ChildProcess, stdin?: string): Promise<Said> {
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  }
  const { code, signal, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return { code, signal, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

export async function liveMachines(dir: string): Promise<string[]> {
  const state = await openState(dir);
  const live: string[] = [];
  for (const name of await namesIn(join(dir, "processes"))) {
    const uuid = name.slice(0, UUID.length);
    if (name === `${uuid}.json` && await isAlive(state, uuid)) live.push(uuid);
  }
  return live;
}

export async function fault(
  host: SimulatedHost,
  name: keyof typeof FAULTS,
  ...words: string[]
): Promise<void> {
  await setFault(await openState(host.dir), name, words);
}

/** Expects a failure with nothing but its message. */
export function failedWith(said: Said, stderr: string): void {
  assertEquals(said, { code: 1, signal: null, stdout: "", stderr });
}
