// The schemas of machines in responses, and the machine of the examples.

import { HOST_UUID } from "./hosts.ts";
import { DRY_RUN } from "../../machines/provision_job.ts";
import type { JsonObject } from "../../domain/json.ts";
import { MACHINE, MACHINE_DISK, MACHINE_NIC } from "../../domain/machine/shown.ts";
import type { ShapeOf } from "../../domain/description/answer.ts";
import { MACHINE_STARTED } from "../../machines/machine_jobs.ts";
import { CONSOLE, CONSOLE_TICKET } from "../routes/machines/console.ts";
import { MACHINE_READ, VNC_ADDRESS, VNC_INFO } from "../routes/machines/machines.ts";

/** The machine of the examples. */
export const MACHINE_UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
/** The job that made it. */
export const MACHINE_JOB = "b7f6a3a0-3c0e-4e59-8f6e-54a9c3e0d7f2";

/** A stopped machine in the examples. */
export const STOPPED_UUID = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";

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

/** The response to POST /agent/v1/machines. */
export const STARTED: ShapeOf<typeof MACHINE_STARTED> = {
  uuid: MACHINE_UUID,
  job_uuid: MACHINE_JOB,
};

/** A machine as lists show it. */
export const LISTED_MACHINE: ShapeOf<typeof MACHINE> = {
  uuid: MACHINE_UUID,
  host: "gz-7.example.com",
  host_uuid: HOST_UUID,
  age_seconds: 12,
  alias: "web1",
  brand: "kvm",
  state: "running",
  zone_state: "running",
  ram: 1024,
  vcpus: 1,
  created_at: "2026-11-20T12:00:04.000Z",
  owner_uuid: "00000000-0000-0000-0000-000000000000",
  disks: [{
    path: `/dev/zvol/rdsk/zones/${MACHINE_UUID}-disk0`,
    media: "disk",
    model: "virtio",
    size: 40_960,
    boot: true,
  }],
  nics: [{
    interface: "net0",
    mac: "e2:14:1a:7b:f3:4",
    nic_tag: "admin",
    vlan_id: null,
    model: "virtio",
    gateway: "192.0.2.2",
    primary: true,
    ips: ["192.0.2.69/24"],
  }],
  media: { path: "/media/installer.iso" },
  medium: "/installer.iso",
  job_uuid: MACHINE_JOB,
  job_execution: "success",
};

/** The schemas of responses about machines. */
export const MACHINE_SCHEMAS: JsonObject = {
  Machine: MACHINE,
  MachineRead: MACHINE_READ,
  MachineDisk: MACHINE_DISK,
  MachineNic: MACHINE_NIC,
  MachineDryRun: DRY_RUN,
  VncAddress: VNC_ADDRESS,
  VncInfo: VNC_INFO,
  Console: CONSOLE,
  ConsoleTicket: CONSOLE_TICKET,
  MachineStarted: MACHINE_STARTED,
};
