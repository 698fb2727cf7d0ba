// docs/tasks.md against the program: every capability has its entry, with its arguments, its deadline
// and an example, and every example runs as it stands.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { capabilityTable } from "../../src/capabilities/capabilities.ts";
import { CALL_RULES } from "../../src/capabilities/capability.ts";
import { startSampleUpstream } from "../../src/simulator/outside/upstream.ts";
import { parseJobRequest } from "../../src/domain/job/request.ts";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { parseMachineRequest } from "../../src/domain/machine/machine.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { CAPABILITIES } from "../../src/wall/protocol.ts";
import { PROVISION_MACHINE } from "../../src/machines/workflows/provision_machine.ts";
import { machineUuidOf, type SimulatedHost, withHost } from "../capabilities/simulated_host.ts";
import { withFolder } from "../support/until.ts";
import { typeProblems } from "../cli/type_check.ts";
import { openScreen } from "../cli/screen.ts";
import { assertConsole, type Provisioning, withProvisioning } from "./provisioning.ts";

const UUID = machineUuidOf(1);
const PAGE = fromFileUrl(new URL("../../docs/tasks.md", import.meta.url));

/** One block of the page. */
interface Block {
  readonly language: string;
  readonly text: string;
}

/** All blocks of the page, in order. */
async function blocks(): Promise<Block[]> {
  const page = await Deno.readTextFile(PAGE);
  return Array.from(
    page.matchAll(/^```(\w*)\n(.*?)^```$/gms),
    ([, language = "", text = ""]) => ({ language, text }),
  );
}

/** The JSON examples of the page, in order. */
async function examples(): Promise<JsonObject[]> {
  return (await blocks()).filter(({ language }) => language === "json")
    .map(({ text }) => JSON.parse(text));
}

/** The one block of that language. */
async function only(language: string): Promise<string> {
  const found = (await blocks()).filter((block) => block.language === language);
  assertEquals(found.length, 1, language);
  return found[0]?.text ?? "";
}

/** A row of the tables of capabilities. */
interface Entry {
  readonly name: string;
  /** What stands between the brackets. */
  readonly args: string;
  readonly cells: readonly string[];
}

/** The rows of tables with these columns. */
async function entries(): Promise<Entry[]> {
  const page = await Deno.readTextFile(PAGE);
  const head = "| Call | Does | Answer | Fails with | Deadline |\n|---|---|---|---|---|\n";
  const rows = page.split(head).slice(1).flatMap((rest) => {
    const lines = rest.split("\n");
    return lines.slice(0, lines.findIndex((line) => !line.startsWith("|")));
  });
  return rows.map((row) => {
    const cells = row.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim());
    const [, name = "", args = ""] = /^`([a-z.]+)\((.*)\)`$/.exec(cells[0] ?? "") ?? [];
    return { name, args, cells };
  });
}

/** `15 min`, as the page writes it, in milliseconds. */
function milliseconds(text: string): number {
  const [, count = "", unit = ""] = /^(\d+) (s|min|h)$/.exec(text) ?? [];
  return Number(count) * ({ s: 1, min: 60, h: 3600 }[unit] ?? Number.NaN) * 1000;
}

/** How many arguments a text such as `uuid, {order, once}` names. */
function countOf(args: string): number {
  const flat = args.replaceAll(/\{[^}]*\}/g, "x");
  return flat === "" ? 0 : flat.split(",").length;
}

/** What a deadline can be asked of. */
function tableOf(host: SimulatedHost): ReturnType<typeof capabilityTable> {
  const now = () => {
    throw new Error("No time is needed");
  };
  return capabilityTable({
    ...host,
    policy: DEFAULT_POLICY,
    mediaDirs: [],
    slots: 1,
    limits: DEFAULT_LIMITS,
    now,
  });
}

Deno.test("docs/tasks.md has an entry for every capability, with its arguments and its deadline", async () => {
  await withHost(async (host) => {
    const table = tableOf(host);
    const rows = await entries();
    assertEquals([...new Set(rows.map(({ name }) => name))].toSorted(), CAPABILITIES.toSorted());
    for (const { name, args, cells } of rows) {
      const capability = CAPABILITIES.find((one) => one === name);
      assert(capability !== undefined && cells.length === 5, cells.join(" | "));
      const [, does = "", answer = "", , deadline = ""] = cells;
      assert(does !== "" && answer !== "", name);
      assertEquals(countOf(args), CALL_RULES[capability].argsMax, `arguments of ${name}`);
      assertEquals(milliseconds(deadline), table[capability].deadlineMs, `deadline of ${name}`);
    }
  });
});

Deno.test("docs/tasks.md names in its entries only codes that it explains", async () => {
  const page = await Deno.readTextFile(PAGE);
  const [, table = ""] = page.split("| `code` | Meaning |");
  const codes = new Set<string>();
  for (const line of (table.split("\n\n")[0] ?? "").split("\n")) {
    const [, first = ""] = line.split("|");
    for (const [, code = ""] of first.matchAll(/`([a-z_]+)`/g)) codes.add(code);
  }
  assert(codes.has("invalid_argument"), [...codes].join(" "));
  for (const { name, cells } of await entries()) {
    for (const [, code = ""] of (cells[3] ?? "").matchAll(/`([a-z_]+)`/g)) {
      assert(codes.has(code), `${name}: ${code}`);
    }
  }
});

Deno.test("docs/tasks.md has a runnable example for every capability", async () => {
  const bodies = (await examples()).filter(({ chain }) => Array.isArray(chain))
    .map((example) => JSON.stringify(example)).join("\n");
  for (const name of CAPABILITIES) {
    const called = new RegExp(`(?<![\\w.])${name.replace(".", "\\.")}\\(`);
    assert(called.test(bodies), `no example calls ${name}()`);
  }
});

Deno.test("docs/tasks.md has no block that no test of this file looks at", async () => {
  for (const { language, text } of await blocks()) {
    if (language !== "json") {
      assert(["js", "sh"].includes(language), `${language}: ${text}`);
      continue;
    }
    const { chain, workflow, compilerOptions } = JSON.parse(text);
    const kinds = [Array.isArray(chain), workflow !== undefined, compilerOptions !== undefined];
    assertEquals(kinds.filter((kind) => kind).length, 1, text);
  }
});

Deno.test("docs/tasks.md shows a request for the built-in workflow that makes a machine", async () => {
  const example = (await examples()).find(({ workflow }) => workflow !== undefined);
  const { workflow_uuid, params } = parseJobRequest(example, {
    targetCharsMax: 100,
    paramsCharsMax: 10_000,
    callbackHosts: [],
  });
  assertEquals(workflow_uuid, PROVISION_MACHINE.uuid);
  assertEquals(parseMachineRequest(params, DEFAULT_POLICY).boot, "cd");
  await withProvisioning(async ({ host, provision }) => {
    // The media folder of this host is another one.
    const job = await provision({ ...params, media: { path: host.iso } });
    assertEquals(job.execution, "succeeded");
    await assertConsole(job);
  });
});

/** Runs a workflow of the page, and returns the result of its last task. */
async function ran(
  { host, runWorkflow }: Provisioning,
  example: JsonObject,
): Promise<{ name: string; result: unknown }> {
  const job = await runWorkflow(example, {
    whom: "you",
    uuid: UUID,
    path: host.iso,
    file: "/install.iso",
    artifact: { distro: "zonewright-sample", release: "latest" },
  });
  const errors = job.chain_results.map(({ error }) => error).filter((error) => error !== "");
  // A job that waits was resumed.
  const waits = errors.filter((error) => error === "wait");
  assertEquals([job.name, job.execution, errors], [job.name, "succeeded", waits]);
  return { name: job.name, result: job.chain_results.at(-1)?.result };
}

Deno.test("every workflow of docs/tasks.md runs unchanged", async () => {
  await withFolder(async (cacheDir) => {
    const upstream = startSampleUpstream({ cacheDir, log: silentLog, isoBytes: 1024 * 1024 });
    try {
      await withProvisioning(async (provisioning) => {
        const { host } = provisioning;
        await host.mirror.sync();
        const results = new Map<string, unknown>();
        for (const example of await examples()) {
          if (!Array.isArray(example.chain)) continue;
          const { name, result } = await ran(provisioning, example);
          assert(!results.has(name), `two examples are named ${name}`);
          results.set(name, result);
        }
        const booted = results.get("boot-medium");
        assert(isJsonObject(booted));
        assertEquals(booted.now, booted.address);
        results.delete("boot-medium");
        assertEquals(Object.fromEntries(results), {
          "hello": "Hello you",
          "report": "reported",
          "small-machine": { quota: 12, role: "test" },
          "machine-report": { states: { stopped: 1 }, refused: "invalid_argument" },
          "reset-machine": { state: "running" },
          "eject-medium": { removed: true },
          "remove-machine": { removed: true },
          "mirror-image": { build: "20261101", size: 1024 * 1024 },
        });
        await host.assertHolds();
      }, { upstream: upstream.url });
    } finally {
      await upstream.close();
    }
  });
});

Deno.test("the workflow that docs/tasks.md writes in an editor is sound, prints itself, and runs", async () => {
  const source = await only("js");
  const settings = (await examples()).find(({ compilerOptions }) => compilerOptions !== undefined);
  assert(isJsonObject(settings) && isJsonObject(settings.compilerOptions));
  const { types: _types, ...options } = settings.compilerOptions;
  const { problems, text } = await typeProblems({ "hello.js": source }, options);
  assertEquals(problems, [], text);
  await withFolder(async (folder) => {
    await Deno.writeTextFile(join(folder, "hello.js"), source);
    const { success, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-config", "hello.js"],
      cwd: folder,
      stderr: "null",
    }).output();
    assert(success);
    await Deno.writeFile(join(folder, "hello.json"), stdout);
    // The commands of the page that need no agent, as they stand.
    const lines = (await only("sh")).split("\n").filter((line) => /validate|try/.test(line));
    assertEquals(lines.length, 2);
    for (const line of lines) {
      const [program, ...words] = line.split(/\s+/);
      assertEquals(program, "zonewright");
      const screen = openScreen({ cwd: folder });
      assertEquals(await screen.run(...words), 0, `${line}\n${screen.err()}`);
    }
    await withProvisioning(async (provisioning) => {
      const example = JSON.parse(new TextDecoder().decode(stdout));
      assertEquals(await ran(provisioning, example), { name: "hello", result: 1 });
    });
  });
});
