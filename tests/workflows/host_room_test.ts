// A machine that its host cannot have ends in the first task of its job, before anything is made; one
// whose medium is large gets a quota that it fits into.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { ISO_BYTES, machineUuidOf } from "../capabilities/simulated_host.ts";
import { paramsFor, withProvisioning } from "./provisioning.ts";

const UUID = machineUuidOf(1);
const GIB = 1024 ** 3;

const IMPOSSIBLE: readonly (readonly [string, JsonObject, string])[] = [
  [
    "on a network that the host does not have",
    { nics: [{ nic_tag: "wan", model: "virtio", ip: "dhcp" }] },
    'nics[0].nic_tag is "wan", and the host has no such network: it has external, admin',
  ],
  [
    "whose disks do not fit into the pool",
    { disks: Array(2).fill({ model: "virtio", size: 1024 * 1024 }) },
    'need 2097152 MiB, and the pool "zones" of the host has 1048576 MiB',
  ],
];

for (const [what, properties, words] of IMPOSSIBLE) {
  Deno.test(`a machine ${what} is refused before anything is made`, async () => {
    await withProvisioning(async ({ host, provision }) => {
      const job = await provision(paramsFor(host, UUID, properties));
      assertEquals([job.execution, job.chain_results.map(({ name }) => name)], [
        "failed",
        ["preflight"],
      ]);
      assertStringIncludes(
        JSON.stringify(job.chain_results.at(-1)?.error),
        JSON.stringify(words).slice(1, -1),
      );
      assertEquals(await host.datasets(), []);
      await host.assertHolds();
    });
  });
}

Deno.test("a zone gets the quota that its medium needs, and has room for it", async () => {
  await withProvisioning(async ({ host, provision }) => {
    const job = await provision(paramsFor(host, UUID, { brand: "bhyve" }));
    assertEquals(job.execution, "succeeded");
    const made = await host.vmadm.get(UUID);
    assertEquals(made?.quota, 2);
    const free = await host.transport.files.freeBytes(`${made?.zonepath}/root`);
    assert(free <= 2 * GIB - ISO_BYTES && free > GIB, String(free));
  });
});
