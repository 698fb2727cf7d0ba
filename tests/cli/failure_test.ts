// The whole table of errors against every command: what each suggests exists, and is not the call that
// has just failed.

import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import {
  AgentError,
  ERROR_CODES,
  type ErrorCode,
  type ErrorSubject,
  SUBJECT_KINDS,
} from "../../src/domain/error.ts";
import { parseArguments } from "../../src/cli/command/arguments.ts";
import { flagsOf, operandCounts } from "../../src/cli/command/command.ts";
import { hintFor } from "../../src/cli/command/failure.ts";
import { sources } from "../house/sources.ts";
import { commandOf, COMMANDS, linesIn } from "./hinted_commands.ts";

// The keys of a constant are exactly those of its type.
const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const UUID = "00000000-0000-4000-8000-00000000000a";

for (const code of CODES) {
  Deno.test(`after ${code}, every command names one that exists and is another`, () => {
    for (const [name, command] of COMMANDS) {
      for (const operands of [[], [UUID]].slice(0, operandCounts(command).max + 1)) {
        const error = new AgentError(code, "Cannot go on: it is a test", { retryAfterSeconds: 3 });
        const args = parseArguments(operands, flagsOf(command));
        const own = (failure: AgentError) => command.hint?.(failure, args);
        const hint = hintFor(error, { name, operands, hint: own });
        const lines = linesIn(hint);
        assertNotEquals(lines, [], `${name}: ${hint}`);
        for (const line of lines) {
          commandOf(line);
          assertNotEquals(line, [name, ...operands].join(" "), `suggests itself: ${hint}`);
        }
      }
    }
  });
}

Deno.test("a hint about things names those of its own noun", () => {
  const missing = new AgentError("not_found", "Cannot find it: there is none");
  for (const noun of ["job", "machine", "media", "token", "workflow"]) {
    for (const [name] of COMMANDS) {
      if (!name.startsWith(`${noun} `) || name === `${noun} list`) continue;
      assertMatch(
        hintFor(missing, { name, operands: [UUID] }),
        new RegExp(`^zonewright ${noun} `),
        name,
      );
    }
  }
  const busy = new AgentError("conflict", "Cannot stop it: it is busy");
  assertEquals(
    hintFor(busy, { name: "machine stop", operands: [UUID] }),
    `zonewright machine get ${UUID}  shows its state`,
  );
  assertEquals(
    hintFor(busy, { name: "job wait", operands: ["a b"] }),
    "zonewright job get 'a b'  shows its state",
  );
});

for (const kind of SUBJECT_KINDS) {
  Deno.test(`an error about a ${kind} names a command that exists, whatever the command`, () => {
    const isOfAddress = kind === "scheme" || kind === "signer";
    for (const [failed, command] of COMMANDS) {
      if (isOfAddress && !flagsOf(command).some((flag) => flag.name === "url")) continue;
      const error = new AgentError("conflict", "Cannot go on: it is a test", {
        about: { kind, name: "http://127.0.0.1:1" },
      });
      const hint = () => "the hint of the command";
      for (const line of linesIn(hintFor(error, { name: failed, operands: [], hint }))) {
        commandOf(line);
        assertNotEquals(line, failed, `suggests itself: ${kind}`);
      }
    }
  });
}

Deno.test("a hint depends on what the error is about, never on its message", () => {
  const hints: [ErrorSubject, string, RegExp][] = [
    [{ kind: "leftover" }, "machine delete", /machine leftovers /],
    [{ kind: "host", name: "gz09" }, "job run", /host list /],
    [{ kind: "artifact" }, "machine create", /image list /],
    [{ kind: "setting", name: "download_host" }, "media add", /config show --running /],
    [{ kind: "token", name: "reader" }, "job run", /token create .* admin /],
    [{ kind: "job", name: UUID }, "machine stop", new RegExp(`^zonewright job get ${UUID} `)],
    [{ kind: "job" }, "job get", /job list /],
    [{ kind: "database" }, "job list", /doctor --running --run database /],
    [{ kind: "database" }, "serve", /doctor --run database /],
    [{ kind: "database" }, "db migrate", /address in --store; /],
    [{ kind: "state_dir" }, "serve", /doctor --run state /],
    [{ kind: "scheme", name: "https://a:1" }, "status", /^zonewright status --url https:..a:1$/],
  ];
  const codes: ErrorCode[] = ["conflict", "forbidden", "not_found", "overloaded"];
  for (const [about, name, hint] of hints) {
    for (const code of codes) {
      const error = new AgentError(code, "Cannot do it: a test", { about });
      assertMatch(hintFor(error, { name, operands: [] }), hint, about.kind);
    }
  }
  const prose = new AgentError("overloaded", 'Cannot reach the database: host "a" is off');
  assertMatch(hintFor(prose, { name: "job list", operands: [] }), /^try again in 1 s; /);
});

Deno.test("after an error of an agent, its own doctor is named, not that of this machine", () => {
  for (const [code, check] of [["host", "vmadm"], ["storage_full", "disk"]] as const) {
    const error = new AgentError(code, "Cannot do it: a test");
    const of = (name: string) => hintFor(error, { name, operands: [] });
    assertMatch(of("machine list"), new RegExp(`^zonewright doctor --running --run ${check} `));
    assertMatch(of("db backup"), new RegExp(`^zonewright doctor --run ${check} `));
  }
});

Deno.test("what an error is about is one word of the next command, whatever an agent has answered", () => {
  const name = "x; echo $(id)";
  const hints = (["job", "scheme", "signer"] as const).map((kind) => {
    const error = (about: ErrorSubject) => new AgentError("conflict", "Cannot do it", { about });
    const hint = hintFor(error({ kind, name }), { name: "job retry", operands: [UUID] });
    const unnamed = hintFor(error({ kind }), { name: "job retry", operands: [UUID] });
    return [hint, unnamed];
  });
  assertEquals(hints, [
    ["zonewright job get 'x; echo $(id)'  shows it", "zonewright job list  shows the jobs"],
    ["zonewright job retry --url 'x; echo $(id)'", "zonewright job retry --help"],
    ["zonewright job retry --url 'x; echo $(id)' --ca FILE", "zonewright job retry --help"],
  ]);
});

Deno.test("the command line decides nothing by the words of an agent's message", async () => {
  const reading = /\b[mM]essage\)?\.(?:includes|startsWith|endsWith|match)\(["'`/]/;
  const found = (await sources("src/cli")).flatMap(({ path, text }) =>
    text.split("\n").flatMap((line) => reading.test(line) ? [`${path}: ${line.trim()}`] : [])
  );
  assertEquals(found, []);
});
