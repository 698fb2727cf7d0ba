// Every operation of vmadm times everything that may go wrong with a call of it, on the simulated host:
// what fails says so by name, and what vmadm only words strangely is no failure.

import { assert, assertEquals, assertFalse } from "@std/assert";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { runCommand } from "../../src/host/program.ts";
import { simulatedTransport } from "../../src/host/transport.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import { hurriedWait } from "../support/timers.ts";
import { withFolder } from "../support/until.ts";
import { refused } from "./refused.ts";
import { selfOfRun } from "../support/agent_process.ts";

const UUID = parseUuid<MachineUuid>("6d2f8a51-92a5-4e02-9c3f-1f6e0b3c7d11", "uuid");
const OTHER = parseUuid<MachineUuid>("7d2f8a51-92a5-4e02-9c3f-1f6e0b3c7d11", "uuid");
const DEADLINE_MS = 90_000;
const PAYLOAD: JsonObject = { uuid: UUID, brand: "kvm", ram: 256, autoboot: false };

interface Host {
  readonly vmadm: Vmadm;
  /** Runs the simulator's own commands. */
  simulate(...words: string[]): Promise<string>;
}

async function withHost(test: (host: Host) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const self = selfOfRun();
    const stateDir = `${folder}/state`;
    const simulate = async (...words: string[]) => {
      const args = [...self.args, "simulate", "--state", stateDir, ...words];
      const options = { deadlineMs: DEADLINE_MS, env: { ...self.env } };
      const { code, stdout, stderr } = await runCommand(self.program, args, options);
      assertEquals([code, words, stderr], [0, words, stderr]);
      return stdout;
    };
    try {
      await test({ vmadm: openVmadm(simulatedTransport({ self, stateDir })), simulate });
    } finally {
      await simulate("stop-all");
    }
  });
}

/** Each operation with its subcommand. The machine is running, `other` is free. */
const OPERATIONS:
  readonly (readonly [subcommand: string, run: (vmadm: Vmadm) => Promise<unknown>])[] = [
    ["validate", (vmadm) => vmadm.validateCreate({ ...PAYLOAD, uuid: OTHER })],
    ["create", (vmadm) => vmadm.create({ ...PAYLOAD, uuid: OTHER })],
    ["lookup", (vmadm) => vmadm.get(UUID)],
    ["lookup", (vmadm) => vmadm.list()],
    ["boot", (vmadm) => vmadm.boot(UUID, {})],
    ["stop", (vmadm) => vmadm.stop(UUID, { force: true })],
    ["reboot", (vmadm) => vmadm.reboot(UUID, { force: true })],
    ["update", (vmadm) => vmadm.update(UUID, { quota: 12 })],
    ["delete", (vmadm) => vmadm.delete(UUID)],
    ["info", (vmadm) => vmadm.infoVnc(UUID)],
    ["info", (vmadm) => vmadm.vncConsole(UUID)],
  ];

async function codeOf(run: () => Promise<unknown>): Promise<[ErrorCode | "none", string]> {
  try {
    await run();
    return ["none", ""];
  } catch (error) {
    assert(error instanceof AgentError, `${error}`);
    return [error.code, error.message];
  }
}

Deno.test("a call that is killed, aborts or is refused by vmadm fails with its cause", async () => {
  await withHost(async ({ vmadm, simulate }) => {
    await vmadm.create(PAYLOAD);
    await vmadm.boot(UUID, {});
    const faults: [fault: (subcommand: string) => string[], words: string][] = [
      [(subcommand) => ["killed", subcommand, "1"], "SIGKILL"],
      [(subcommand) => ["aborted", subcommand, "1"], "SIGABRT"],
      [() => ["no_global_zone"], "FATAL: cannot run because"],
      [() => ["no_root"], "FATAL: cannot run because"],
    ];
    for (const [subcommand, run] of OPERATIONS) {
      for (const [fault, words] of faults) {
        await simulate("fault", ...fault(subcommand));
        const [code, message] = await codeOf(() => run(vmadm));
        await simulate("fault", "--clear");
        assertEquals(
          [subcommand, code, message.includes(words)],
          [subcommand, "host", true],
          message,
        );
        assert(message.includes(`"vmadm ${subcommand}`), message);
      }
    }
    // None of those has done anything.
    assertEquals((await vmadm.get(UUID))?.state, "running");
    assertEquals(await vmadm.get(OTHER), null);
  });
});

Deno.test("garbage on stdout fails only what is read from there, noise on stderr nothing", async () => {
  await withHost(async ({ vmadm, simulate }) => {
    await vmadm.create(PAYLOAD);
    await vmadm.boot(UUID, {});
    await waitForVnc(vmadm, UUID, { deadlineMs: DEADLINE_MS, wait: hurriedWait });
    const reads = ["lookup", "info"];
    const cases: [fault: string, fails: readonly string[]][] = [
      ["garbage", reads],
      ["noise_stdout", reads],
      ["noise_stderr", []],
    ];
    for (const [fault, fails] of cases) {
      for (const [subcommand, run] of OPERATIONS) {
        if (subcommand === "delete") continue;
        await simulate("fault", fault, subcommand);
        const [code, message] = await codeOf(() => run(vmadm));
        await simulate("fault", "--clear");
        const wanted = fails.includes(subcommand) ? "host" : "none";
        assertEquals([fault, subcommand, code], [fault, subcommand, wanted], message);
        if (subcommand === "create") await vmadm.delete(OTHER);
        if (subcommand === "stop") await vmadm.boot(UUID, {});
        await waitForVnc(vmadm, UUID, { deadlineMs: DEADLINE_MS, wait: hurriedWait });
      }
    }
  });
});

Deno.test("a daemon that is down fails the calls that need it; others work", async () => {
  await withHost(async ({ vmadm, simulate }) => {
    await vmadm.create(PAYLOAD);
    await vmadm.boot(UUID, {});
    await simulate("fault", "vmadmd_down");
    await refused(() => vmadm.stop(UUID, {}), "host", "connect ECONNREFUSED");
    await refused(() => vmadm.infoVnc(UUID), "host", "connect ECONNREFUSED");
    assertEquals((await vmadm.get(UUID))?.state, "running");
    await vmadm.stop(UUID, { force: true });
    await simulate("fault", "--clear");
    await simulate("fault", "vminfod_down");
    for (const run of [() => vmadm.get(UUID), () => vmadm.list(), () => vmadm.boot(UUID, {})]) {
      await refused(run, "host", "ECONNREFUSED");
    }
    // The simulator dies of these faults.
    const dying = [
      () => vmadm.stop(UUID, { force: true }),
      () => vmadm.update(UUID, { quota: 12 }),
      () => vmadm.delete(UUID),
    ];
    for (const run of dying) await refused(run, "host", "was ended by SIGABRT: ");
    await simulate("fault", "--clear");
    assertEquals((await vmadm.get(UUID))?.state, "stopped");
  });
});

Deno.test("a reset keeps the console of a kvm machine, a reboot and a start move it", async () => {
  await withHost(async ({ vmadm, simulate }) => {
    await vmadm.create(PAYLOAD);
    await refused(() => vmadm.reboot(UUID, {}), "conflict", 'its state is "stopped"');
    await refused(() => vmadm.reboot(OTHER, {}), "not_found", OTHER);
    await vmadm.boot(UUID, {});
    const wait = () => waitForVnc(vmadm, UUID, { deadlineMs: DEADLINE_MS, wait: hurriedWait });
    const first = await wait();
    await vmadm.reboot(UUID, { force: true });
    assertEquals(await wait(), first);
    await vmadm.reboot(UUID, {});
    assertFalse((await wait()).port === first.port);
    const second = await wait();
    await simulate("guest", UUID, "proxy-restart");
    assertFalse((await wait()).port === second.port);
  });
});

Deno.test("a machine gets a password that only its console shows", async () => {
  await withHost(async ({ vmadm }) => {
    for (const brand of ["kvm", "bhyve"]) {
      const bootrom = brand === "bhyve" ? { bootrom: "uefi" } : {};
      const payload = { ...PAYLOAD, brand, ...bootrom, vnc_password: true };
      await vmadm.validateCreate(payload);
      await vmadm.create(payload);
      await vmadm.boot(UUID, {});
      await waitForVnc(vmadm, UUID, { deadlineMs: DEADLINE_MS, wait: hurriedWait });
      const { password = "" } = await vmadm.vncConsole(UUID) ?? {};
      assertEquals(password.length, 8);
      const reported = [await vmadm.get(UUID), await vmadm.list(), await vmadm.infoVnc(UUID)];
      assertFalse(JSON.stringify(reported).includes(password));
      await vmadm.delete(UUID);
    }
  });
});
