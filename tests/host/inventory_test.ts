// What is read of the words of the host's programs, and what is said when they make no sense.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { askPool, askSystem } from "../../src/host/inventory.ts";
import { askNetworks } from "../../src/host/machine_needs.ts";
import { simulatedTransport, type Transport } from "../../src/host/transport.ts";
import { withFolder } from "../support/until.ts";
import { selfOfRun } from "../support/agent_process.ts";

/** A host all of whose programs end so. */
async function saying(
  stdout: string,
  run: (host: Transport) => Promise<void>,
  code = 0,
): Promise<void> {
  await withFolder(async (stateDir) => {
    const answer = () => Promise.resolve({ code, signal: null, stdout, stderr: "", durationMs: 1 });
    const host = simulatedTransport({ self: selfOfRun(), stateDir });
    await run({ ...host, sysinfo: answer, zfs: answer, nictagadm: answer });
  });
}

Deno.test("the simulated host reports its hardware, and the space in its pool", async () => {
  await withFolder(async (stateDir) => {
    const host = simulatedTransport({ self: selfOfRun(), stateDir });
    assertEquals(await askSystem(host), {
      value: {
        hostname: "simulated",
        platform: "simulated",
        cpu: "simulated",
        cpus: 16,
        ram_mib: 65_536,
        hvm: true,
      },
    });
    assertEquals(await askPool(host), {
      value: { name: "zones", used_bytes: 0, free_bytes: 1024 ** 4 },
    });
    assertEquals(await askNetworks(host), {
      value: [
        { tag: "external", link: "net0", kind: "normal" },
        { tag: "admin", link: "net1", kind: "normal" },
      ],
    });
  });
});

Deno.test("sysinfo: numbers may be texts; missing and odd values become null", async () => {
  const said = { "MiB of Memory": "4096", "CPU Total Cores": -1, "Hostname": "", "VM Capable": 1 };
  await saying(JSON.stringify(said), async (host) => {
    assertEquals(await askSystem(host), {
      value: { hostname: null, platform: null, cpu: null, cpus: null, ram_mib: 4096, hvm: null },
    });
  });
  for (const words of ["", "no", "[1]", "null"]) {
    await saying(words, async (host) => {
      const answer = await askSystem(host);
      assertStringIncludes("unasked" in answer ? answer.unasked : "", "it printed no JSON");
    });
  }
});

Deno.test("sysinfo: the boot parameters are never read nor quoted", async () => {
  const said = JSON.stringify({ "Boot Parameters": { root_shadow: "hash" }, "Hostname": "gz" });
  await saying(said, async (host) => {
    assertEquals(JSON.stringify(await askSystem(host)).includes("hash"), false);
  });
  await saying(said, async (host) => {
    assertEquals(await askSystem(host), {
      unasked: '"sysinfo" ended with exit code 1 and wrote nothing',
    });
  }, 1);
});

Deno.test("zfs and nictagadm: a senseless answer is quoted, and counts as none", async () => {
  await saying("12\n", async (host) => {
    assertEquals(await askPool(host), { unasked: 'it said "12\\n"' });
  });
  await saying("\n", async (host) => {
    assertEquals(await askNetworks(host), { unasked: "it names none" });
  });
});

Deno.test("nictagadm: reads the link after the address, and the kind if it is printed", async () => {
  const printed =
    "a:2\\:8\\:20\\:1\\:2\\:3:net0\nb:-:aggr0:aggr\nstub0:-:-:etherstub\nsdc:-:-:overlay rule\n";
  await saying(printed, async (host) => {
    assertEquals(await askNetworks(host), {
      value: [
        { tag: "a", link: "net0", kind: null },
        { tag: "b", link: "aggr0", kind: "aggr" },
        { tag: "stub0", link: "stub0", kind: "etherstub" },
        { tag: "sdc", link: null, kind: "overlay rule" },
      ],
    });
  });
});

Deno.test("an aborted query counts as no answer, and a missing program is named", async () => {
  await saying("", async (host) => {
    const gone = (code: "aborted" | "host") => ({
      ...host,
      zfs: () => Promise.reject(new AgentError(code, "there is no such program")),
    });
    const error = await assertRejects(() => askPool(gone("aborted")), AgentError);
    assertEquals(error.code, "aborted");
    assertEquals(await askPool(gone("host")), { unasked: "there is no such program" });
  });
});
