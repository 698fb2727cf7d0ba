// The simulated vmadm beside what the real one answered to the same payloads.

import { assert, assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { readMachine } from "../../src/simulator/machine.ts";
import { changeHost, openState, type State } from "../../src/simulator/host_folder.ts";
import { create, plan, validate } from "../../src/simulator/vmadm/create.ts";
import { viewOf } from "../../src/simulator/vmadm/query.ts";
import { recordedMachines, recordedVerdicts } from "../support/recorded_vmadm.ts";
import { withFolder } from "../support/until.ts";

const UUID = "0fd62f6f-3c48-4b9e-a2b5-1d0a75f8e7c1";
/** The share of payloads on which both must agree. */
const AGREED_MIN = 0.97;

/** A simulated host with the networks of the recorded one. */
async function withRecordedHost(test: (state: State) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    await changeHost(await openState(folder), { nic_tags: ["admin", "test0", "storage/int"] });
    await test(await openState(folder));
  });
}

/** The text of a refusal, after CRASH where an exception ended the tool. */
function textOf(error: unknown): string {
  if (!(error instanceof AgentError)) throw error;
  return error.code === "aborted" ? `CRASH ${error.message}` : error.message;
}

/** What a tool said, without what is random; lists without their order. */
function comparable(said: JsonValue): string {
  if (typeof said !== "string") {
    return JSON.stringify(said, (_, value) => Array.isArray(value) ? value.toSorted() : value);
  }
  return said.trim()
    .replace(/(?:[0-9a-f]{1,2}:){5}[0-9a-f]{1,2}/g, "MAC")
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UUID");
}

async function validated(state: State, payload: JsonObject): Promise<JsonValue> {
  try {
    const { code, stderr } = await validate(state, JSON.stringify(payload), "create", undefined);
    return code === 0 ? null : JSON.parse(stderr);
  } catch (error) {
    return textOf(error);
  }
}

async function planned(state: State, payload: JsonObject): Promise<JsonValue> {
  try {
    await plan(state, payload, UUID);
    return null;
  } catch (error) {
    return textOf(error);
  }
}

Deno.test("the simulator answers payloads as the real vmadm did", async () => {
  await withRecordedHost(async (state) => {
    const verdicts = await recordedVerdicts();
    const differ: Record<"validate" | "create", string[]> = { validate: [], create: [] };
    for (const { name, payload, ...real } of verdicts) {
      const simulated = {
        validate: await validated(state, payload),
        create: await planned(state, payload),
      };
      for (const call of ["validate", "create"] as const) {
        const [theirs, ours] = [comparable(real[call]), comparable(simulated[call])];
        if (theirs !== ours) differ[call].push(`${name}: ${theirs}, simulated ${ours}`);
      }
    }
    assert(verdicts.length >= 592);
    for (const [call, found] of Object.entries(differ)) {
      const agreed = 1 - found.length / verdicts.length;
      assert(agreed >= AGREED_MIN, `${call} agrees on ${agreed}:\n  ${found.join("\n  ")}`);
    }
  });
});

/**
 * Properties that are not compared: of the recording's host and moment, or made by its stand-ins. A volume
 * takes more of the pool than its size there.
 */
const NOT_COMPARED = [
  "create_timestamp",
  "datacenter_name",
  "last_modified",
  "platform_buildstamp",
  "refreservation",
  "server_uuid",
  "zoneid",
  "zonedid",
];

/** A machine without what is random or not compared. */
function comparableMachine(machine: JsonObject, zones: string): JsonValue {
  const uuid = String(machine.uuid);
  const clean = (value: JsonValue, key = ""): JsonValue => {
    if (Array.isArray(value)) return value.map((item) => clean(item));
    if (isJsonObject(value)) {
      const kept = Object.keys(value).filter((name) => !NOT_COMPARED.includes(name)).sort();
      return Object.fromEntries(kept.map((name) => [name, clean(value[name] ?? null, name)]));
    }
    if (key === "mac") return "MAC";
    if (typeof value !== "string") return value;
    return comparable(value.replace(zones, "/zones").replaceAll(uuid, "OWN"));
  };
  return clean(machine);
}

Deno.test("get prints a machine as the real vmadm did", async () => {
  // One was recorded while it was still being made.
  const machines = (await recordedMachines()).filter(({ get }) => get.state === "stopped");
  assertEquals(machines.length, 12);
  for (const { name, create: payload, get } of machines) {
    await withRecordedHost(async (state) => {
      await create(state, JSON.stringify({ ...payload, uuid: UUID }));
      const machine = await readMachine(state, UUID);
      assert(machine !== null);
      const printed = await viewOf(state, machine);
      const theirs = comparableMachine(get, "/zones");
      assertEquals(comparableMachine(printed, `${state.dir}/zones`), theirs, name);
    });
  }
});
