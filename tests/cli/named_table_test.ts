// The rules of names and short uuids, for every command of the table that takes a job, a machine, a workflow
// or a leftover: in its operand, or in a flag.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { NOUNS } from "../../src/cli/cli.ts";
import { type Command, YES_FLAG } from "../../src/cli/command/command.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { screenFor } from "./screen.ts";

const NOW_MS = Date.parse("2026-01-31T18:30:00Z");
const CREATED = "2026-01-31T18:20:00Z";

/** Two of each kind begin alike for 8 characters; the third does not. */
const TAIL = "-6a53-4c0c-9a3b-0d1f4e0a7a1";
const ALIKE = [`6c1e8f0a${TAIL}1`, `6c1e8f0a${TAIL}2`] as const;
const ALONE = `51fe0b77${TAIL}3`;
const UUIDS = [...ALIKE, ALONE];

type Kind = "job" | "leftover" | "machine" | "workflow";

function thing(kind: Kind, uuid: string): JsonObject {
  switch (kind) {
    case "job":
      return { uuid, name: "hello", state: "queued", created_at: CREATED };
    case "leftover":
      return { uuid, host: "gz-7", tries: 3, claimed_at: CREATED };
    case "machine":
      // Aliases are unique but for those of the two.
      return {
        ...{ uuid, alias: uuid === ALONE ? "lone" : "twin", state: "running" },
        created_at: CREATED,
      };
    case "workflow":
      return { uuid, name: uuid === ALONE ? "lone" : "twin", chain: [{}] };
  }
}

/** What stands for a thing among candidates. */
const ABOUT: Readonly<Record<Kind, string>> = {
  job: "hello, queued, 10 m old",
  leftover: "3 tries, gz-7, 10 m old",
  machine: "twin, running, 10 m old",
  workflow: "twin, 1 task",
};

/** An agent that knows these things and does whatever it is asked, with a note of each request. */
async function withThings(
  run: (url: string, asked: { readonly method: string; readonly path: string }[]) => Promise<void>,
): Promise<void> {
  const asked: { method: string; path: string }[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { pathname: path, searchParams } = new URL(request.url);
    asked.push({ method: request.method, path });
    const begins = searchParams.get("uuid") ?? "";
    const name = searchParams.get("name");
    const all = (kind: Kind) =>
      UUIDS.filter((uuid) => uuid.startsWith(begins)).map((uuid) => thing(kind, uuid));
    if (request.method !== "GET") return Response.json({});
    switch (path) {
      case "/agent/v1/jobs":
        return Response.json({ jobs: all("job"), next: null });
      case "/agent/v1/machines":
        return Response.json(all("machine"));
      case "/agent/v1/leftovers":
        return Response.json(all("leftover"));
      case "/workflows":
        return Response.json(all("workflow").filter((one) => name === null || one.name === name));
      default:
        return Response.json({});
    }
  });
  try {
    await run(`http://127.0.0.1:${server.addr.port}`, asked);
  } finally {
    await server.shutdown();
  }
}

/** A place of a command line where a thing is named. */
interface Place {
  readonly kind: Kind;
  readonly command: Command;
  /** The command line with the word in its place. */
  line(word: string): string[];
}

const KINDS: Readonly<Record<string, Kind>> = {
  JOB: "job",
  MACHINE: "machine",
  WORKFLOW: "workflow",
};

/** What a command needs besides. */
const BESIDES: Readonly<Record<string, readonly string[]>> = {
  "workflow update": ["--file", "-"],
};

async function places(): Promise<Place[]> {
  const found: Place[] = [];
  for (const [name, load] of Object.entries(NOUNS)) {
    const noun = await load();
    const commands = noun.kind === "verbs" ? Object.entries(noun.verbs) : [["", noun.command]];
    for (const [verb, command] of commands as [string, Command][]) {
      if (command.shared !== "agent") continue;
      const words = [name, verb].filter((word) => word !== "");
      const besides = BESIDES[words.join(" ")] ?? [];
      const operand = KINDS[(command.operands ?? "").replace(/^\[(.*)\]$/, "$1")];
      if (operand !== undefined) {
        found.push({ kind: operand, command, line: (word) => [...words, word, ...besides] });
      }
      for (const { name: flag, placeholder = "" } of command.flags) {
        const kind = flag === "drop" ? "leftover" : KINDS[placeholder];
        if (kind === undefined) continue;
        found.push({ kind, command, line: (word) => [...words, `--${flag}`, word, ...besides] });
      }
    }
  }
  return found;
}

const input = JSON.stringify({ name: "hello", chain: [] });

function screenOf(url: string) {
  return screenFor(url, { input, nowMs: () => NOW_MS });
}

Deno.test("the table of commands lists every operand that names a thing", async () => {
  const lines = (await places()).map(({ line }) => line("X").join(" "));
  for (
    const line of [
      ...["job get X", "job cancel X", "job run X", "job tail X", "job list --workflow X"],
      ...["job list --machine X", "job cancel --workflow X", "machine delete X", "machine vnc X"],
      ...["machine leftovers --drop X", "workflow get X", "workflow delete X"],
    ]
  ) assert(lines.includes(line), `${line} is not among ${lines.join(", ")}`);
});

Deno.test("a beginning of several uuids exits 2 with uuid, name, state and age of each, everywhere", () =>
  withThings(async (url, asked) => {
    for (const { kind, line } of await places()) {
      const words = line("6c1e8f0a");
      const screen = screenOf(url);
      assertEquals([words, await screen.run(...words), screen.out()], [words, 2, ""]);
      assertStringIncludes(screen.err(), `Cannot choose ${kind} "6c1e8f0a": 2 uuids begin so`);
      for (const uuid of ALIKE) assertStringIncludes(screen.err(), `  ${uuid}  ${ABOUT[kind]}\n`);
      const json = screenOf(url);
      assertEquals([words, await json.run(...words, "--json"), json.out()], [words, 2, ""]);
      const { errors, exit_code } = JSON.parse(json.err());
      assertEquals([exit_code, errors.length], [2, 2]);
    }
    assert(asked.every(({ method }) => method === "GET"));
  }));

Deno.test("an alias or a name of several exits 2 with the candidates, everywhere", () =>
  withThings(async (url, asked) => {
    for (const { kind, line } of await places()) {
      const words = line("twin");
      // Jobs keep the name of their workflow: of a list it is a filter, and all of them are meant.
      if ((kind !== "machine" && kind !== "workflow") || words[2] === "--workflow") continue;
      // Equal workflows are one: the newest runs.
      if (words[1] === "run") continue;
      const screen = screenOf(url);
      assertEquals([words, await screen.run(...words), screen.out()], [words, 2, ""]);
      for (const uuid of ALIKE) assertStringIncludes(screen.err(), `  ${uuid}  ${ABOUT[kind]}\n`);
    }
    assert(asked.every(({ method }) => method === "GET"));
  }));

Deno.test("four unique first characters of a uuid are enough, everywhere", () =>
  withThings(async (url) => {
    for (const { line } of await places()) {
      const words = line("51fE");
      const screen = screenOf(url);
      assertEquals([words, await screen.run(...words, "--curl")], [words, 0], screen.err());
      assertStringIncludes(screen.out(), ALONE);
    }
  }));

Deno.test("deleting and canceling commands show what they resolved, and require 8 characters with --yes", () =>
  withThings(async (url, asked) => {
    const changing = (await places()).filter(({ command }) => command.flags.includes(YES_FLAG));
    const verbs = new Set(changing.map(({ line }) => line("").slice(0, 2).join(" ")));
    assertEquals([...verbs].toSorted(), [
      ...["job cancel", "job retry", "machine delete", "machine leftovers", "workflow delete"],
    ]);
    for (const { kind, line } of changing) {
      if (line("")[1] === "retry" && kind === "job") continue;
      const few = [...line("51fe0b7"), "--yes"];
      const refused = screenOf(url);
      assertEquals([few, await refused.run(...few), refused.out()], [few, 2, ""]);
      assertStringIncludes(refused.err(), `${kind} ${ALONE} (`);
      assertStringIncludes(refused.err(), "with --yes, expected 8 characters of its uuid or more");
      assert(asked.every(({ method }) => method === "GET"));
      const enough = [...line("51fe0b77"), "--yes"];
      const done = screenOf(url);
      assertEquals([enough, await done.run(...enough)], [enough, 0], done.err());
      assertStringIncludes(done.err(), `${kind} ${ALONE} (`);
      assertEquals([enough, asked.filter(({ method }) => method !== "GET").length], [enough, 1]);
      asked.length = 0;
    }
  }));

Deno.test("every command that deletes or cancels a named thing has --yes", () =>
  withThings(async (url, asked) => {
    for (const { command, line } of await places()) {
      const words = [...line(ALONE), "--curl"];
      const screen = screenOf(url);
      assertEquals([words, await screen.run(...words)], [words, 0], screen.err());
      const removes = /-X DELETE|\/cancel\b/.test(screen.out());
      assert(!removes || command.flags.includes(YES_FLAG), words.join(" "));
    }
    assert(asked.every(({ method }) => method === "GET"));
  }));
