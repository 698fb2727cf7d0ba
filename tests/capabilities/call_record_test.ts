// What the timeline of a job tells of the calls of its tasks.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { CALL_ENTRIES_MAX } from "../../src/capabilities/call_record.ts";
import { argumentCount, CALL_RULES } from "../../src/capabilities/capability.ts";
import { AgentError } from "../../src/domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { CAPABILITIES, type CapabilityName } from "../../src/wall/protocol.ts";
import { until } from "../support/until.ts";
import { callsOf, machineUuidOf, withHost } from "./simulated_host.ts";
import { isoBytes } from "../support/medium.ts";
import { NO_LIMIT } from "../support/limits.ts";

const UUID: string = machineUuidOf(1);
const { signal } = new AbortController();
const SECRET = "hunter2222";

/** An entry about calls without its times, which are no two times the same. */
function timeless(entry: JsonObject): JsonObject {
  const text = JSON.stringify(entry, (key, value) => {
    if (key !== "ms") return value;
    assert(typeof value === "number" && value >= 0 && Number.isInteger(value), `${value}`);
    return undefined;
  });
  return JSON.parse(text);
}

Deno.test("every acting call gets its own entry; other calls are counted when the task ends", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    await perform("vmadm.get", [UUID], signal);
    await perform("vmadm.create", [{ uuid: UUID, brand: "kvm", ram: 256, disks: [] }], signal);
    await perform("vmadm.get", [UUID], signal);
    await perform("vmadm.stop", [UUID, { force: true }], signal);
    await assertRejects(() => perform("vmadm.get", ["x"], signal));
    await assertRejects(() => perform("vmadm.boot", [UUID, { once: "cd" }], signal));
    perform.close();
    const reported = await until("the counts", async () => {
      const entries = await callsOf(store, uuid);
      return entries.some((entry) => entry.zonewright_calls !== undefined) ? entries : undefined;
    });
    const call = (name: CapabilityName, args: JsonObject, ended: string) => ({
      task: "t",
      zonewright_call: { name, args, ended },
    });
    assertEquals(reported.map(timeless), [
      call("vmadm.create", { uuid: UUID, brand: "kvm", ram: 256, disks: 0 }, "ok"),
      call("vmadm.stop", { uuid: UUID, force: true }, "ok"),
      call("vmadm.boot", { uuid: UUID, once: "cd" }, "invalid_argument"),
      {
        task: "t",
        zonewright_calls: {
          "vmadm.get": { count: 3, failed: 1 },
          "vmadm.create": { count: 1 },
          "vmadm.stop": { count: 1 },
          "vmadm.boot": { count: 1, failed: 1 },
        },
      },
    ]);
  });
});

Deno.test("a task without calls, or with notes only, leaves no entry about calls", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    await perform("info", [{ a: 1 }], signal);
    await perform("log.info", ["x"], signal);
    perform.close();
    await store.info.append(uuid, { last: true }, "2030-01-01T00:00:00.000Z" as never, NO_LIMIT);
    assertEquals(await callsOf(store, uuid), []);
  });
});

Deno.test("notes that were refused or dropped are counted", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    await assertRejects(() => perform("info", [5], signal));
    for (let times = 1; times <= 3; times += 1) {
      await perform("log.info", ["x", { large: "x".repeat(20_000) }], signal);
    }
    perform.close();
    const [entry] = await until("the counts", async () => {
      const entries = await callsOf(store, uuid);
      return entries.length > 0 ? entries : undefined;
    });
    assertEquals(timeless(entry ?? {}), {
      task: "t",
      zonewright_calls: { "info": { count: 1, failed: 1 }, "log.info": { count: 3 } },
      notes_dropped: 3,
    });
  });
});

Deno.test("only a limited number of calls gets entries, but all are counted", async () => {
  await withHost(async ({ store, newJob }) => {
    const { uuid, perform } = await newJob(1);
    const calls = CALL_ENTRIES_MAX + 50;
    for (let times = 1; times <= calls; times += 1) {
      await assertRejects(() => perform("media.remove", [UUID, "startvm"], signal));
    }
    perform.close();
    const entries = await until("the counts", async () => {
      const found = await callsOf(store, uuid);
      return found.length > CALL_ENTRIES_MAX ? found : undefined;
    });
    assertEquals(entries.length, CALL_ENTRIES_MAX + 1);
    assertEquals(timeless(entries.at(-1) ?? {}).zonewright_calls, {
      "media.remove": { count: calls, failed: calls },
    });
  });
});

Deno.test("executions that fill their job's info cannot hide their calls", async () => {
  await withHost(async ({ store, newJob, performFor, mediaDir }) => {
    const { uuid } = await newJob(1);
    for (let execution = 1; execution <= 3; execution += 1) {
      const perform = performFor({ job_uuid: uuid, task_name: "t", signal });
      for (let times = 1; times <= 4; times += 1) {
        await perform("info", [{ times }], signal).catch((error) => {
          assertEquals(error.code, "too_large", error.message);
        });
        await perform("log.info", ["x"], signal);
      }
      // Finding a medium tells its progress too.
      await Deno.writeFile(`${mediaDir}/${execution}.iso`, isoBytes(40_960));
      await perform("media.find", [{ path: `${execution}.iso` }], signal);
      perform.close();
    }
    const all = await store.info.list(uuid) ?? [];
    const calls = await callsOf(store, uuid);
    // Those of the agent take room too, and have room of their own.
    assert(all.length - calls.length <= 10 && all.length > 10, `${all.length}, ${calls.length}`);
    assertEquals(calls.filter((entry) => entry.zonewright_call !== undefined).length, 3);
  }, { limits: { infoEntriesMax: 10 } });
});

Deno.test("entries cut a long task name", async () => {
  await withHost(async ({ store, newJob, performFor }) => {
    const { uuid } = await newJob(1);
    const perform = performFor({ job_uuid: uuid, task_name: "n".repeat(100_000), signal });
    await perform("media.find", [{ path: "install.iso" }], signal);
    await perform("vmadm.get", [UUID], signal);
    assertEquals(await perform("log.info", ["x"], signal), null);
    perform.close();
    const entries = await until("the counts", async () => {
      const found = await store.info.list(uuid) ?? [];
      return found.length >= 4 ? found : undefined;
    });
    for (const { task } of entries) assertEquals(task, "n".repeat(255));
  });
});

Deno.test("a call that was cut off records how it ended, and no later call is recorded", async () => {
  await withHost(async ({ store, newJob, simulate }) => {
    const { uuid, perform } = await newJob(1);
    await simulate("fault", "hang", "*");
    const gone = new AbortController();
    const call = perform("vmadm.delete", [UUID], gone.signal);
    gone.abort();
    await assertRejects(() => call, AgentError);
    const [entry] = await callsOf(store, uuid);
    assertEquals(timeless(entry ?? {}).zonewright_call, {
      name: "vmadm.delete",
      args: { uuid: UUID },
      ended: "aborted",
    });
  });
});

Deno.test("a call of a job that was removed meanwhile does not fail the call", async () => {
  await withHost(async ({ performFor }) => {
    const job_uuid = "00000000-0000-4000-8000-00000000dead" as never;
    const perform = performFor({ job_uuid, task_name: "t", signal });
    assertEquals(await perform("vmadm.delete", [UUID], signal), null);
    perform.close();
  });
});

/** Values with a secret at every place that a payload or a request has for one. */
const SECRETIVE: readonly (readonly [CapabilityName, JsonValue[]])[] = [
  ["vmadm.create", [{
    uuid: UUID,
    brand: "kvm",
    vnc_password: SECRET,
    spice_password: SECRET,
    alias: SECRET,
    customer_metadata: { root_pw: SECRET, "user-data": SECRET, [SECRET]: 1 },
    internal_metadata: { x: SECRET },
    tags: { note: SECRET },
    [SECRET]: SECRET,
    disks: [{ model: SECRET }],
    nics: [{ nic_tag: SECRET }],
  }]],
  ["vmadm.update", [UUID, {
    vnc_password: SECRET,
    set_customer_metadata: { admin_pw: SECRET },
    [`${SECRET}=x`]: 1,
  }]],
  ["vmadm.boot", [UUID, { cdrom: `vnc_password=${SECRET}`, [SECRET]: SECRET }]],
  ["media.find", [{ url: `https://me:${SECRET}@example.org/a.iso?token=${SECRET}#${SECRET}` }]],
  ["media.find", [{ path: `password: ${SECRET}` }]],
  ["media.find", [SECRET]],
  ["media.place", [UUID, { name: `secret="${SECRET}"`, token: SECRET }]],
  ["media.remove", [UUID, { file: SECRET }]],
  ["images.download", [{ distro: `my_pw='${SECRET}'`, password: SECRET }]],
];

Deno.test("the record of a call has no secret of its arguments", async () => {
  await withHost(async ({ store, newJob, lines }) => {
    const { uuid, perform } = await newJob(1);
    for (const [name, args] of SECRETIVE) {
      await assertRejects(() => perform(name, args, signal), AgentError);
    }
    perform.close();
    const text = JSON.stringify(await store.info.list(uuid));
    assertEquals((await callsOf(store, uuid)).length, SECRETIVE.length, text);
    assert(!text.includes(SECRET), text);
    assert(!lines.join("").includes(SECRET), lines.join("\n"));
  });
});

Deno.test("the record of a call is short even if its arguments are long", () => {
  const long = "x".repeat(300_000);
  const wide = Object.fromEntries(
    Array.from({ length: 20_000 }, (_, at) => [`key_${at}`, long[0]]),
  );
  const hostile: JsonValue[] = [
    long,
    1e308,
    [],
    Array(100_000).fill(long[0] ?? ""),
    wide,
    {
      uuid: long,
      brand: long,
      order: long,
      cdrom: long,
      url: `https://x/${long}`,
      path: long,
      digest: long,
      name: long,
      file: long,
      artifact: { distro: long, release: [long] },
      disks: Array(10_000).fill(0),
    },
    JSON.parse(`{"__proto__": {"uuid": "x"}, "constructor": {"name": "x"}, "toString": 1}`),
  ];
  for (const name of CAPABILITIES) {
    for (const first of hostile) {
      for (const second of hostile) {
        const reported = CALL_RULES[name].brief([first, second]);
        assert(isJsonObject(reported));
        const text = JSON.stringify(reported);
        assert(text.length < 2000, `${name}: ${text.length} characters`);
        assertEquals(Object.getPrototypeOf(reported), Object.prototype);
      }
    }
  }
});

Deno.test("argumentCount() does not count a trailing null", () => {
  assertEquals([[], [null], [null, 1], [1, null, null], [0, false, ""]].map(argumentCount), [
    0,
    0,
    2,
    1,
    3,
  ]);
});
