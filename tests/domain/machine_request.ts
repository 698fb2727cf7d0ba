// A machine request as tests vary it, and what a parse of it complains of.

import { assert, assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";

export const UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";

/** The example of document 3. */
export const machine: JsonObject = {
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 1024,
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
export const media = { path: "/media/omnios.iso" };
export const disk = { model: "virtio", size: 1024 };
export const nic = { nic_tag: "admin", model: "virtio" };

/** A request for that machine with other properties. */
export function request(changes: JsonObject): unknown {
  return { machine: { ...machine, ...changes }, media };
}

/** The fields that a parse names, in order. */
export function fieldsOf(parse: () => unknown): string[] {
  const error = assertThrows(parse, AgentError);
  assertEquals(error.code, "invalid_argument");
  for (const { field, message } of error.errors) assert(message.startsWith(field), message);
  assert(error.message.startsWith("Cannot accept the "), error.message);
  return error.errors.map(({ field }) => field);
}
