// The shapes of machines that are shown, for the description, with the machine of its examples.

import type { JsonObject } from "../domain/json.ts";
import { NULLABLE_UUID, objectOf, schemaRef, TEXT, UUID } from "./openapi_operation.ts";

/** The machine of the examples. */
export const MACHINE_UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const MACHINE_JOB = "b7f6a3a0-3c0e-4e59-8f6e-54a9c3e0d7f2";

/** A description that fits the default policy. @see document 3 */
export const DESCRIPTION: JsonObject = {
  brand: "kvm",
  alias: "web1",
  vcpus: 1,
  ram: 1024,
  autoboot: false,
  resolvers: ["192.0.2.53", "198.51.100.53"],
  disks: [{ boot: true, model: "virtio", size: 40_960 }],
  nics: [{
    nic_tag: "admin",
    model: "virtio",
    ip: "192.0.2.69",
    netmask: "255.255.255.0",
    gateway: "192.0.2.2",
    primary: 1,
  }],
};

/** What POST /agent/v1/machines answers. */
export const STARTED: JsonObject = { uuid: MACHINE_UUID, job_uuid: MACHINE_JOB };

/** A machine as lists show it. */
export const LISTED_MACHINE: JsonObject = {
  uuid: MACHINE_UUID,
  alias: "web1",
  brand: "kvm",
  state: "running",
  ram: 1024,
  vcpus: 1,
  media: { path: "/media/installer.iso" },
  job_uuid: MACHINE_JOB,
  job_execution: "success",
};

const FIELDS: JsonObject = {
  uuid: UUID,
  alias: { type: ["string", "null"] },
  brand: { type: ["string", "null"] },
  state: {
    type: "string",
    description:
      "vmadm's word, such as `running` or `stopped`; `absent` while there is only a job.",
  },
  ram: { type: ["integer", "null"], description: "MiB." },
  vcpus: { type: ["integer", "null"] },
  media: {
    anyOf: [schemaRef("Media"), { type: "null" }],
    description: "What that job installs from; null when there is no such job.",
  },
  job_uuid: {
    ...NULLABLE_UUID,
    description: "The newest provisioning job of this machine; while the machine is there, " +
      "requests that failed later are passed over.",
  },
  job_execution: { anyOf: [schemaRef("Execution"), { type: "null" }] },
};
const NAMES = Object.keys(FIELDS);

/** The schemas of what is shown. */
export const MACHINE_SCHEMAS: JsonObject = {
  Machine: objectOf("A machine, as lists show it.", NAMES, FIELDS),
  MachineRead: objectOf("A machine with its console.", [...NAMES, "vnc"], {
    ...FIELDS,
    vnc: {
      anyOf: [schemaRef("VncAddress"), { type: "null" }],
      description: "Null while the machine does not run, or has no such console.",
    },
  }),
  VncAddress: objectOf("Where a VNC viewer connects.", ["host", "port"], {
    host: TEXT,
    port: { type: "integer", minimum: 1, maximum: 65_535 },
    display: { type: "integer", description: "The port as a number of a display." },
  }),
  MachineStarted: objectOf("The machine, and the job that makes it.", ["uuid", "job_uuid"], {
    uuid: UUID,
    job_uuid: UUID,
  }),
};
