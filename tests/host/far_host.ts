// A host behind a real sshd on loopback, for tests of the way to it.

import { assert } from "@std/assert";
import { type SshTransport, sshTransport } from "../../src/host/ssh/transport.ts";
import type { SshHost } from "../../src/host/ssh/connection.ts";
import { until, withFolder } from "../support/until.ts";
import { type SshServer, sshTest, withSshServer } from "./ssh_server.ts";
import { newMark } from "./test_host.ts";

/** A host and what is needed to reach it. */
export interface FarHost {
  readonly folder: string;
  readonly server: SshServer;
  /** What vmadm() runs; it does not exist until a test writes it. */
  readonly program: string;
  readonly transport: SshTransport;
  /** Another way to the same host, closed with the test. */
  readonly reach: (change: Partial<SshHost>, vmadm?: string) => SshTransport;
  /** Writes `program` as a script of sh. */
  readonly writeProgram: (...lines: string[]) => Promise<void>;
}

/** Registers a test with a host behind sshd, of whose ways none is left open. */
export function farTest(
  name: string,
  test: (host: FarHost) => Promise<void>,
  options: readonly string[] = [],
): void {
  sshTest(name, () =>
    withFolder((folder) =>
      withSshServer(folder, async (server) => {
        const program = `${folder}/program`;
        const opened: SshTransport[] = [];
        const reach = (change: Partial<SshHost>, vmadm = program) => {
          const host = { ...server.host, folder: `${folder}/way-${opened.length}`, ...change };
          const transport = sshTransport({ host, vmadm, zonesRoot: `${folder}/zones`, newMark });
          opened.push(transport);
          return transport;
        };
        const writeProgram = (...lines: string[]) =>
          Deno.writeTextFile(program, ["#!/bin/sh", ...lines, ""].join("\n"), { mode: 0o755 });
        try {
          await test({ folder, server, program, transport: reach({}), reach, writeProgram });
        } finally {
          for (const transport of opened) await transport.close();
        }
      }, options)
    ));
}

/** The process whose id a program wrote into a file, once it has. */
export async function pidIn(path: string): Promise<number> {
  return await until(`a pid in ${path}`, async () => {
    const text = await Deno.readTextFile(path).catch(() => "");
    return /^\d+\n$/.test(text) ? Number(text) : undefined;
  });
}

/** Waits until a process is gone. */
export async function assertEnds(pid: number): Promise<void> {
  await until(`the end of process ${pid}`, () => !isAlive(pid));
}

/** Whether a process is there and has not ended. */
export function isAlive(pid: number): boolean {
  assert(pid > 1);
  try {
    return !/^\d+ \(.*\) Z/s.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return false;
  }
}
