// Every property that is taken reaches vmadm and is shown by it: made with the first good value of the
// manual's table, changed to the last one.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { MANUAL_PROPERTIES, type Taken } from "../domain/manual_properties.ts";
import { machineUuidOf, withHost } from "./simulated_host.ts";

const UUID: string = machineUuidOf(1);
const { signal } = new AbortController();

/** Rows of one brand whose names begin so; without a dot, those of the machine itself. */
function rowsOf(brand: "kvm" | "bhyve", prefix: "" | "disks.*." | "nics.*."): [string, Taken][] {
  return Object.entries(MANUAL_PROPERTIES).flatMap(([name, taken]): [string, Taken][] => {
    const own = name.startsWith(prefix) && !name.slice(prefix.length).includes(".");
    const fits = taken !== null && (taken.brands === "both" || taken.brands === brand);
    return own && fits && taken.good.length > 0 ? [[name.slice(prefix.length), taken]] : [];
  });
}

function valuesOf(rows: readonly [string, Taken][], pick: 0 | -1): Record<string, JsonValue> {
  return Object.fromEntries(rows.map(([name, { good }]) => [name, good.at(pick) ?? null]));
}

/** What the host's `get` shows of those names. */
function shownOf(object: JsonValue | undefined, names: readonly string[]): JsonObject {
  const shown = isJsonObject(object) ? object : {};
  return Object.fromEntries(names.map((name) => [name, shown[name] ?? null]));
}

for (const brand of ["kvm", "bhyve"] as const) {
  Deno.test(`every property of a ${brand} machine reaches vmadm, at create and at update`, async () => {
    await withHost(async (host) => {
      const { perform } = await host.newJob(1);
      const nicsOf = async () => {
        const { nics } = await host.vmadm.get(machineUuidOf(1)) ?? {};
        return Array.isArray(nics) ? nics.filter(isJsonObject) : [];
      };
      const settings = valuesOf(rowsOf(brand, ""), 0);
      const disk = { ...valuesOf(rowsOf(brand, "disks.*."), 0), size: 2048 };
      const nic = { ...valuesOf(rowsOf(brand, "nics.*."), 0), ips: ["192.0.2.7/24"] };
      // Another address beside a list of them, and what is shown under another name.
      const { ip: _ip, vlan_id: _vlan, ...named } = nic as JsonObject;
      const payload = {
        ...settings,
        ram: 1024,
        // vmadm raises a smaller limit, and does not show that nothing is compressed.
        max_locked_memory: 1280,
        zfs_root_compression: "lz4",
        brand,
        uuid: UUID,
        disks: [disk],
        nics: [named],
        resolvers: ["192.0.2.53"],
      };
      await perform("vmadm.validate", [payload], signal);
      await perform("vmadm.create", [payload], signal);
      const made = await host.vmadm.get(machineUuidOf(1));
      const { disks, nics, tags, vnc_password: _password, ...plain } = payload as JsonObject;
      assertEquals(shownOf(made ?? {}, Object.keys(plain)), plain);
      assertEquals(isJsonObject(tags) && isJsonObject(made?.tags) && made.tags.role, "web");
      for (const [list, given] of [["disks", disks], ["nics", nics]] as const) {
        const shown = made?.[list];
        const [item] = Array.isArray(shown) ? shown : [];
        const [wanted] = Array.isArray(given) ? given : [];
        assertEquals(shownOf(item, Object.keys(wanted as JsonObject)), shownSpelling(wanted));
      }

      const changing = rowsOf(brand, "").filter(([, { update }]) => update);
      const changes = {
        ...valuesOf(changing, -1),
        ram: 1024,
        max_locked_memory: 1280,
        resolvers: ["192.0.2.54"],
      };
      await perform("vmadm.update", [UUID, changes], signal);
      const after = await host.vmadm.get(machineUuidOf(1));
      assertEquals(shownOf(after ?? {}, Object.keys(changes)), changes);
      const routes = { set_routes: { "203.0.113.0/24": "198.51.100.2" } };
      await perform("vmadm.update", [
        UUID,
        { ...routes, remove_routes: ["192.0.2.0/24", "203.0.113.7"] },
      ], signal);
      assertEquals((await host.vmadm.get(machineUuidOf(1)))?.routes, routes.set_routes);

      const mac = "02:08:20:00:00:07";
      const added = { nic_tag: "external", model: "virtio", ips: ["dhcp"], mac };
      await perform("vmadm.update", [UUID, { add_nics: [added] }], signal);
      await perform("vmadm.update", [UUID, { update_nics: [{ mac, vlan_id: 12 }] }], signal);
      const [, second] = await nicsOf();
      assertEquals([second?.nic_tag, second?.vlan_id], ["external", 12]);
      await perform("vmadm.update", [UUID, { remove_nics: [mac] }], signal);
      assertEquals((await nicsOf()).length, 1);

      const other = brand === "kvm" ? { bootrom: "uefi" } : { vga: "std" };
      const refused = () => perform("vmadm.update", [UUID, { ...other, ram: 64 }], signal);
      const error = await assertRejects(refused, AgentError);
      assertStringIncludes(error.message, "is only for machines of brand");
      assertEquals((await host.vmadm.get(machineUuidOf(1)))?.ram, 1024);
    });
  });
}

/** As `get` spells it: a slot in full, a primary nic by true, no ports as the port 0. */
function shownSpelling(item: JsonValue | undefined): JsonObject {
  const given = isJsonObject(item) ? { ...item } : {};
  if (given.primary === 1) given.primary = true;
  if (JSON.stringify(given.blocked_outgoing_ports) === "[]") given.blocked_outgoing_ports = [0];
  return given;
}
