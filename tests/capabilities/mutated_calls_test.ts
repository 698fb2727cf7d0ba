// Calls that are valid but for one value, at every place of their arguments: each ends well or as an
// error that its task may read, and never as a defect of the agent.

import { assert, assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { isJsonObject, type JsonValue } from "../../src/domain/json.ts";
import type { CapabilityName } from "../../src/wall/protocol.ts";
import { quickTimers } from "../support/timers.ts";
import { until } from "../support/until.ts";
import { callsOf, machineUuidOf, withHost } from "./simulated_host.ts";

const UUID: string = machineUuidOf(1);
const { signal } = new AbortController();

const PAYLOAD: JsonValue = {
  uuid: UUID,
  brand: "kvm",
  ram: 256,
  vcpus: 1,
  autoboot: false,
  resolvers: ["192.0.2.53"],
  alias: "a",
  hostname: "a.example.org",
  quota: 12,
  tags: { role: "web" },
  customer_metadata: { a: 1 },
  vga: "std",
  disks: [{ boot: true, model: "virtio", size: 1024, compression: "lz4", block_size: 8192 }],
  nics: [{ nic_tag: "admin", model: "virtio", ip: "192.0.2.9", netmask: "255.255.255.0", ips: [] }],
};

const CALLS: readonly (readonly [CapabilityName, JsonValue[]])[] = [
  ["vmadm.validate", [PAYLOAD]],
  ["vmadm.get", [UUID]],
  ["vmadm.boot", [UUID, { order: "cd", once: "d", cdrom: "/a.iso", disk: "/a.img" }]],
  ["vmadm.stop", [UUID, { force: true }]],
  ["vmadm.reboot", [UUID, { force: true }]],
  [
    "vmadm.update",
    [UUID, {
      ram: 512,
      quota: 5,
      set_tags: { a: 1 },
      remove_tags: ["b"],
      add_disks: [{ path: "/a.iso", media: "cdrom", model: "ahci" }],
      remove_disks: ["/b.iso"],
    }],
  ],
  ["vmadm.delete", [UUID]],
  ["vmadm.info", [UUID, "vnc"]],
  ["media.find", [{ path: "install.iso", digest: `sha256:${"0".repeat(64)}` }]],
  ["media.place", [UUID, { path: "/a.iso", sha256: "0".repeat(64), name: "a.iso" }]],
  ["media.remove", [UUID, "/a.iso"]],
  ["images.find", [{ distro: "omnios", release: "latest", build: "1", arch: "x86_64" }]],
  ["vnc.wait", [UUID, { timeout: 1 }]],
  ["info", [{ task: "t", message: "m", progress: { phase: "copy", done: 1, total: 2 } }]],
  ["log.info", ["m", { a: { b: [1] } }]],
];

const DEEP: JsonValue = JSON.parse("[".repeat(90) + "]".repeat(90));
const HOSTILE: readonly JsonValue[] = [
  null,
  true,
  -1,
  1e308,
  Number.MAX_SAFE_INTEGER,
  "",
  "__proto__",
  "\u0000\n\u2028\ud800",
  "%00../../../../etc/passwd",
  "x".repeat(200_000),
  [],
  Array(50_000).fill({}),
  {},
  JSON.parse('{"__proto__": {"a": 1}, "constructor": {}, "toString": 1, "toJSON": 1, "length": 5}'),
  DEEP,
];

/** The arguments with each of the hostile values in the place of each value of theirs. */
function* mutations(value: JsonValue): Generator<JsonValue> {
  yield* HOSTILE;
  if (Array.isArray(value)) {
    for (const [index, inner] of value.entries()) {
      for (const changed of mutations(inner)) yield value.with(index, changed);
    }
  } else if (isJsonObject(value)) {
    for (const [name, inner] of Object.entries(value)) {
      for (const changed of mutations(inner)) yield { ...value, [name]: changed };
      // The same under a name that nobody knows.
      yield { ...value, [`${name}\u0000`]: inner };
    }
  }
}

for (const [name, args] of CALLS) {
  Deno.test(`${name}() refuses a hostile value anywhere in its arguments`, async () => {
    await withHost(async (host) => {
      // A value that is valid all the same meets a host that refuses to work.
      await host.simulate("fault", "no_root");
      let calls = 0;
      let { perform } = await host.newJob(0);
      for (const [index, arg] of args.entries()) {
        for (const changed of mutations(arg)) {
          // One execution may append a thousand entries.
          if (calls % 300 === 0) ({ perform } = await host.newJob(calls + 1));
          calls += 1;
          const shown = `${name}(${JSON.stringify(changed)?.slice(0, 200)})`;
          const end = await perform(name, args.with(index, changed), signal).then(
            () => "ok",
            (error) => {
              assert(error instanceof AgentError, `${shown}: ${error}`);
              assert(error.message.length < 5000, `${shown}: ${error.message.length} characters`);
              return error.code;
            },
          );
          assert(end !== "internal", shown);
        }
      }
      assert(calls >= HOSTILE.length, name);
      assertEquals(Object.hasOwn(Object.prototype, "a"), false);
      assertEquals(host.lines.filter((line) => line.includes("capability failed")), []);
    }, name === "vnc.wait" ? { timers: quickTimers(36_000) } : {});
  });
}

Deno.test("a cancel in the middle of calls of every kind ends them all, and reports each that acts", async () => {
  await withHost(async (host) => {
    const { uuid, perform } = await host.newJob(1);
    await host.simulate("fault", "hang", "*");
    const gone = new AbortController();
    const calls = CALLS.flatMap((call) => [call, call]).slice(0, 28);
    const ends = Promise.allSettled(calls.map(([name, args]) => perform(name, args, gone.signal)));
    await until(
      "some of them to have ended",
      async () => (await host.store.info.list(uuid) ?? []).length > 0,
    );
    gone.abort();
    for (const end of await ends) {
      if (end.status === "fulfilled") continue;
      assert(end.reason instanceof AgentError && end.reason.code !== "internal", `${end.reason}`);
    }
    const acting = ["vmadm.boot", "vmadm.stop", "vmadm.update", "vmadm.delete"];
    const reported = (await callsOf(host.store, uuid)).map(({ zonewright_call: call }) =>
      isJsonObject(call) ? `${call.name} ${call.ended}` : ""
    );
    for (const name of acting) {
      assertEquals(
        reported.filter((one) => one === `${name} aborted`).length,
        2,
        reported.join("\n"),
      );
    }
  });
});
