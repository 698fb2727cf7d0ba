// vmadm info: what the hypervisor of a running machine tells about itself. Only `vnc` and `status`
// follow the machine; the other sections of kvm are there in a plain form.

import { type JsonObject, objectsIn } from "../../domain/json.ts";
import { faultText, strikes } from "../fault.ts";
import { type Machine, readMachine } from "../machine.ts";
import { failed, type Outcome, printed, printedJson, refusal } from "../outcome.ts";
import type { State } from "../state.ts";

/** Ports from here on have a VNC display number. */
const VNC_PORT_FIRST = 5900;

/** Sections of kvm besides `all` and `vnc`. */
const KVM_SECTIONS: Readonly<Record<string, (machine: Machine) => JsonObject>> = {
  block: (machine) => ({
    block: objectsIn(machine.vm.disks).map((disk, index) => ({
      device: `${String(disk.model)}${index}`,
      type: String(disk.media) === "cdrom" ? "cdrom" : "hd",
      inserted: { file: disk.path ?? null, ro: disk.media === "cdrom" },
    })),
  }),
  blockstats: () => ({ blockstats: [] }),
  chardev: () => ({ chardev: [] }),
  cpus: (machine) => ({
    cpus: Array.from({ length: Number(machine.vm.vcpus) }, (_, CPU) => ({ CPU, halted: false })),
  }),
  kvm: () => ({ kvm: { enabled: true, present: true } }),
  pci: () => ({ pci: [] }),
  spice: () => ({ spice: {} }),
  status: () => ({ status: { running: true, singlestep: false, status: "running" } }),
  version: () => ({ version: { qemu: { major: 0, minor: 14, micro: 1 }, package: "" } }),
};

/** `vmadm info UUID [TYPE,TYPE]`. */
export async function info(state: State, uuid: string, types: string): Promise<Outcome> {
  const prefix = `Unable to get VM info for VM ${uuid}: `;
  let sections: JsonObject;
  try {
    sections = await sectionsOf(state, uuid, types === "" ? ["all"] : types.split(","));
  } catch (error) {
    return failed(prefix + (error instanceof Error ? error.message : String(error)));
  }
  if (await strikes(state, "info_cut")) {
    const text = JSON.stringify(sections, null, 2);
    return printed(text.slice(0, Math.ceil(text.length / 2)));
  }
  return printedJson(sections);
}

async function sectionsOf(
  state: State,
  uuid: string,
  types: readonly string[],
): Promise<JsonObject> {
  const machine = await readMachine(state, uuid);
  if (await strikes(state, "vmadmd_down") || await strikes(state, "info_refused")) {
    throw refusal("connect ECONNREFUSED");
  }
  if (machine === null) throw refusal("bad statusCode: 404");
  const wanted = types.map((type) => type.toLowerCase());
  const known = ["all", "vnc", ...(machine.brand === "kvm" ? Object.keys(KVM_SECTIONS) : [])];
  const unknown = wanted.find((type) => !known.includes(type));
  if (unknown !== undefined) throw refusal(`unknown info type ${unknown}`);
  if (machine.state !== "running" && machine.state !== "stopping") {
    throw refusal(
      `Unable to get info for vm from state "${machine.state}", must be "running" or "stopping".`,
    );
  }
  if (await strikes(state, "info_500")) {
    throw refusal("Unable to get info from vmadmd, query returned 500.");
  }
  const names = wanted.includes("all") ? known.slice(1) : known.filter((it) => wanted.includes(it));
  const sections: JsonObject = {};
  for (const name of names) {
    const section = KVM_SECTIONS[name];
    Object.assign(sections, section === undefined ? await vnc(state, machine) : section(machine));
  }
  return sections;
}

/** The listener; an empty object while there is none. */
async function vnc(state: State, machine: Machine): Promise<JsonObject> {
  const port = machine.process?.port ?? null;
  if (port === null || await strikes(state, "info_empty")) return { vnc: {} };
  const host = await faultText(state, "info_wrong_host") ?? state.host.admin_ip;
  const password = machine.vm.vnc_password;
  return {
    vnc: {
      ...(await strikes(state, "info_missing_host") ? {} : { host }),
      ...(await strikes(state, "info_missing_port") ? {} : portOf(port)),
      // In clear text, as the real tool prints it.
      ...(typeof password === "string" && password !== "" ? { password } : {}),
    },
  };
}

function portOf(port: number): JsonObject {
  return port < VNC_PORT_FIRST ? { port } : { port, display: port - VNC_PORT_FIRST };
}
