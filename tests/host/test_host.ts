// One suite for every way to a host: each test runs with a local, a simulated and an ssh transport.
// What is behind all of them is the simulator; the local one finds it as a program of the name
// vmadm, and so does sshd's end of the other.

import { assertEquals } from "@std/assert";
import { runCommand } from "../../src/host/program.ts";
import { sshTransport } from "../../src/host/ssh/transport.ts";
import { quoted } from "../../src/host/ssh/command.ts";
import { localTransport, simulatedTransport, type Transport } from "../../src/host/transport.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { withFolder } from "../support/until.ts";
import { sshTest, withSshServer } from "./ssh_server.ts";
import { selfOfRun } from "../support/agent_process.ts";

const DEADLINE_MS = 90_000;

/** A host and the way to it. */
export interface TestHost {
  readonly folder: string;
  readonly transport: Transport;
  readonly vmadm: Vmadm;
  /** Runs a command of the simulator itself. */
  simulate(...words: string[]): Promise<void>;
  /** Switches a fault of the simulator. */
  fault(...words: string[]): Promise<void>;
}

/** A text that nobody guesses. */
export function newMark(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/**
 * Registers a test for each way to a host.
 * @param only the ways, when not all of them
 */
export function hostTest(
  name: string,
  test: (host: TestHost) => Promise<void>,
  only: readonly Transport["kind"][] = ["local", "simulated", "ssh"],
): void {
  for (const kind of only) {
    const register = kind === "ssh" ? sshTest : plainTest;
    register(`${name} (${kind})`, () => withHost(kind, test));
  }
}

function plainTest(name: string, fn: () => Promise<void>): void {
  Deno.test(name, fn);
}

/** Runs a function with a host that has no process left when it ends. */
async function withHost(
  kind: Transport["kind"],
  test: (host: TestHost) => Promise<void>,
): Promise<void> {
  await withFolder(async (temporary) => {
    const folder = await Deno.realPath(temporary);
    const self = selfOfRun();
    const stateDir = `${folder}/state`;
    const zonesRoot = `${stateDir}/zones`;
    const vmadm = await writeVmadm(folder, stateDir);
    const simulate = async (...words: string[]) => {
      const args = [...self.args, "simulate", "--state", stateDir, ...words];
      const options = { deadlineMs: DEADLINE_MS, env: { ...self.env } };
      assertEquals((await runCommand(self.program, args, options)).code, 0);
    };
    const run = async (transport: Transport) => {
      const fault = (...words: string[]) => simulate("fault", ...words);
      await test({ folder, transport, vmadm: openVmadm(transport), simulate, fault });
    };
    try {
      if (kind === "local") await run(localTransport({ vmadm, zonesRoot }));
      else if (kind === "simulated") await run(simulatedTransport({ self, stateDir }));
      else {
        await withSshServer(folder, async ({ host }) => {
          const transport = sshTransport({ host, vmadm, zonesRoot, newMark });
          try {
            await run(transport);
          } finally {
            await transport.close();
          }
        });
      }
    } finally {
      await simulate("stop-all");
    }
  });
}

/** Writes a program that plays vmadm whatever its environment is. */
export async function writeVmadm(folder: string, stateDir: string): Promise<string> {
  const { program, args, env } = selfOfRun();
  const words = [program, ...args, "simulate", "--state", stateDir, "vmadm"];
  const variables = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`);
  const exec = `exec ${words.map(quoted).join(" ")} "$@"`;
  const path = `${folder}/vmadm`;
  await Deno.writeTextFile(path, ["#!/bin/sh", ...variables, exec, ""].join("\n"), { mode: 0o755 });
  return path;
}
