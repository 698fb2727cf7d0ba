// Each layer of the sandbox alone: the corpus runs with all the others open, in guests from source and
// in those of the binary, and what the layer promises by itself is looked for. Bodies that only fill
// memory or run on are ended by the agent, whatever is open: ZONEWRIGHT_CHAOS=full runs them, too.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { GUEST_LAYERS, type GuestLayer } from "../../src/guest/guest.ts";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import { functionProblem } from "../../src/decoder/work/task_sources.ts";
import { withFolder } from "../support/until.ts";
import { type BodyOptions, withPool } from "./bodies.ts";
import {
  assertEnd,
  errorText,
  type Escape,
  LOOP_MS,
  perform,
  readEscapes,
  type RealmKind,
  REALMS,
} from "./corpus.ts";
import { IMPORTS } from "./import_disguises.ts";
import { type OpenGuest, withOpenGuest } from "./open_pool.ts";
import type { Program } from "../support/agent_process.ts";
import { eachProgram } from "../support/each_program.ts";

const FULL = Deno.env.get("ZONEWRIGHT_CHAOS") === "full";
/** Bodies that take all there is, by time or memory. */
const GREEDY =
  /^(heap|buffers|strings|big|.*without_(end|bottom)|loop_|.*too_|memory_|.*_never_kept)/;

const BY_IMPORT = "import by ";
/** Bodies that change the language of the guest's own realm, and tell what they have changed. */
const CHANGES = /^foreign_(methods|iterators|prototype|promises|bytes)/;
/** Bodies that, on Node, get an error of the guest's realm: that nothing of it can be changed is another layer. */
const NODE_STACKS = /^(stacks_without_stack|rejections_of_overflows)\.js$/;
const SECRET = "a secret of the host";
/** What gets through foreign_platform.js where a check of the runtime cannot pass, by that check. */
const OPEN_DOORS: Readonly<Record<string, readonly string[]>> = {
  sys: ["kill", "host", "user", "interfaces", "node:os"],
  // Only as root is the network that a guest can use one of its own.
  net: ["listen", "resolve"],
};

/** The next task of the guest: its source, job and error must be what was sent. */
const NEXT = `(error, job, cb) => {
  job.kept = "mark of the next job";
  cb(null, { error, params: job.params, text: "mark of the source", list: [..."mark"] });
}`;
const NEXT_RUN: BodyOptions = {
  kind: "fallback",
  job: { params: { text: "mark of the params", list: [1, { deep: "mark" }] } },
  error: { name: "Error", message: "mark of the error" },
  taskName: "mark",
};

function others(layer: GuestLayer | undefined): GuestLayer[] {
  return GUEST_LAYERS.filter((one) => one !== layer);
}

async function corpus(realm: RealmKind, program: Program["name"]): Promise<Escape[]> {
  const escapes = await readEscapes(realm, program);
  const imports = IMPORTS.map(({ name, source }) => ({
    name: `${BY_IMPORT}${name}`,
    source,
    ends: { kind: "failure", detail: "/may use import as code/" },
  }));
  return [...escapes.filter(({ name }) => FULL || !GREEDY.test(name)), ...imports];
}

/**
 * Runs each body in a guest with only this layer closed, and looks at what it came to. Realms without
 * their layer are fresh ones.
 */
async function runAlone(
  { name, ...program }: Program,
  layer: GuestLayer,
  look: (
    escape: Escape,
    outcome: TaskOutcome,
    guest: OpenGuest,
  ) => unknown,
  job = {},
  realm: RealmKind = "fresh",
): Promise<void> {
  const self = { ...program, compiled: name !== "source" };
  await withOpenGuest(self, others(layer), async (guest) => {
    for (const escape of await corpus(realm, name)) {
      const limit = escape.ends.kind === "timeout" ? { timeoutMs: LOOP_MS } : { timeoutMs: 60_000 };
      const outcome = await guest.run(escape.source, { perform, job, ...limit });
      await look(escape, outcome, guest);
    }
  }, realm === "fresh");
}

/** The next task gets what it was sent, and its results are its own. */
async function assertNextIsServed({ name }: Escape, guest: OpenGuest): Promise<void> {
  assertEquals(await guest.run(NEXT, NEXT_RUN), {
    kind: "success",
    result: {
      error: NEXT_RUN.error ?? null,
      params: { text: "mark of the params", list: [1, { deep: "mark" }] },
      text: "mark of the source",
      list: ["m", "a", "r", "k"],
    },
    job: { ...NEXT_RUN.job, kept: "mark of the next job" },
  }, name);
}

/** Node does not refuse its environment: there is nothing in it. */
function isEmptyOnNode({ name }: Program, door: string, answer: string): boolean {
  if (name !== "node") return false;
  return door === "environment" && answer === "{}" ||
    door === "one variable" && answer === "undefined";
}

function changedBy(outcome: TaskOutcome): number {
  assert(outcome.kind === "success", JSON.stringify(outcome));
  const { changed } = outcome.result as { changed?: unknown };
  return Number(changed);
}

Deno.test("the source check alone refuses every import before it runs", () => {
  const check = functionProblem;
  const passed = IMPORTS.filter(({ source }) => check(source) === undefined);
  assertEquals(passed.map(({ name }) => name), []);
});

eachProgram("the permissions alone keep a body from everything but computing", async (program) => {
  await withFolder(async (folder) => {
    await Deno.chmod(folder, 0o777);
    const secret = join(folder, "secret");
    await Deno.writeTextFile(secret, SECRET);
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    let connections = 0;
    const listening = (async () => {
      for await (const socket of listener) {
        connections += 1;
        socket.close();
      }
    })();
    const job = { params: { folder, secret, port: listener.addr.port } };
    await runAlone(program, "permissions", ({ name }, outcome) => {
      const text = JSON.stringify(outcome);
      assert(!text.includes(SECRET), `${name}: ${text}`);
      if (name.startsWith("foreign_platform")) {
        assert(outcome.kind === "success", text);
        assertEquals(outcome.job, job);
        const open = (program.walled?.cannotRefuse ?? []).flatMap((check) =>
          OPEN_DOORS[check] ?? []
        );
        const through = outcome.result as [string, string][];
        const closed = through.filter(([door, answer]) =>
          !open.includes(door) && !isEmptyOnNode(program, door, answer)
        );
        assertEquals(closed, []);
      }
    }, job);
    listener.close();
    await listening;
    assertEquals(connections, 0);
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["secret"]);
  });
});

for (const realm of REALMS) {
  const name = `a ${realm} realm alone has no object of another, and no code from strings`;
  eachProgram(name, async (program) => {
    const check = functionProblem;
    await runAlone(
      program,
      "realm",
      (escape, outcome) => {
        const { name, source, ends } = escape;
        if (program.name === "node" && NODE_STACKS.test(name)) return;
        if (check(source) === undefined) return assertEnd(outcome, ends);
        // The check of the source is open: V8 refuses it, or it is no import to V8.
        if (outcome.kind !== "failure") {
          assert(outcome.kind === "success", `${name}: ${JSON.stringify(outcome)}`);
          assert(!JSON.stringify(outcome.result).includes("foreign"), name);
        } else if (name.startsWith(BY_IMPORT)) {
          assertMatch(errorText(outcome), /^Cannot compile the source: |without calling cb/, name);
        }
      },
      {},
      realm,
    );
  });
}

eachProgram("frozen primordials alone leave the next task as it was sent", async (program) => {
  await runAlone(program, "primordials", async (escape, outcome, guest) => {
    const { name } = escape;
    if (CHANGES.test(name)) assertEquals(changedBy(outcome), 0, name);
    if (name.startsWith("foreign_objects_loose")) {
      assert(outcome.kind === "success", `${name}: ${JSON.stringify(outcome)}`);
      assertEquals(outcome.result, { loose: [], seen: true });
    }
    await assertNextIsServed(escape, guest);
  });
});

eachProgram("the protocol alone leaves the next task as it was sent", async (program) => {
  await runAlone(program, "protocol", async (escape, outcome, guest) => {
    // The attack is there, but for what the protocol has fixed; the protocol does not see it.
    const attacks = CHANGES.test(escape.name) && !escape.name.includes("promises");
    if (attacks) assert(changedBy(outcome) > 0, JSON.stringify(outcome));
    await assertNextIsServed(escape, guest);
  });
});

eachProgram(
  "without any layer the same bodies reach the next task",
  async ({ name: kind, ...program }) => {
    const self = { ...program, compiled: kind !== "source" };
    const reached: string[] = [];
    for (
      const { name, source } of (await corpus("fresh", kind)).filter(({ name }) =>
        CHANGES.test(name)
      )
    ) {
      await withOpenGuest(self, GUEST_LAYERS, async (guest) => {
        await guest.run(source, { perform });
        const next = await guest.run(NEXT, { ...NEXT_RUN, timeoutMs: 20_000 });
        if (next.kind !== "success" || !JSON.stringify(next).includes("mark of the source")) {
          reached.push(name);
        }
      });
    }
    assertEquals(reached, ["foreign_bytes_replaced.js", "foreign_methods_wrapped.js"]);
  },
);

eachProgram("a guest with an open layer is given no task", async ({ name, ...program }, t) => {
  const self = { ...program, compiled: name !== "source" };
  for (const layer of GUEST_LAYERS) {
    await t.step(layer, async () => {
      await withOpenGuest(self, [layer], (guest) => {
        const { ok, detail } = guest.checks().find(({ check }) => check === "layers") ?? {};
        assertEquals([ok, detail], [false, `has open layers: ${layer}`]);
        return Promise.resolve();
      });
    });
  }
});

Deno.test("a pool starts every guest with all layers closed", async () => {
  const reported = "open:";
  await withPool(async (run, pool) => {
    await run("(job, cb) => cb()");
    for (const pid of pool.pids()) {
      const words = await Deno.readTextFile(`/proc/${pid}/cmdline`);
      assert(words.includes("guest"), words);
      assert(!words.includes(reported), words);
    }
  });
});
