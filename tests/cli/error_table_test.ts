// Every error that the sources make, by its words: what was attempted, what was found, what was expected, and
// no command that there is not.

import { assert, assertEquals } from "@std/assert";
import { sources } from "../house/sources.ts";
import { type ErrorText, errorTexts } from "./error_table.ts";
import { commandOf, linesIn } from "./hinted_commands.ts";

const TEXTS = await errorTexts();

/** Those that begin with a part of the caller's, which says what was attempted. */
const GIVEN = /^…/;
/** Why a connection has ended, which its maker puts behind what was attempted. */
const REASON = "received an answer of … bytes, which is not sftp";
/** What the net below all commands says, and an answer without a body. */
const NETS: readonly string[] = ["src/cli/command/failure.ts", "src/cli/client/answer.ts"];
/** What every refusal of an argument says in some way: the form that is taken, or what is missing. */
const EXPECTED =
  /expected|did you mean|must |missing|given twice|too many|unknown |takes no value|needs a value|there is no|is not|it has|use |besides|has no|leave |is about|…$/;

function faulty(
  rule: (text: ErrorText) => boolean,
  among: (text: ErrorText) => boolean = () => true,
): string[] {
  return TEXTS.filter((one) => !NETS.some((net) => one.place.startsWith(net)))
    .filter((one) => among(one) && !rule(one))
    .map(({ place, text }) => `${place}: ${text}`);
}

/** Whether the whole message stands there, and is no part that others complete. */
function isWhole({ maker, text }: ErrorText): boolean {
  return maker === "AgentError" && !GIVEN.test(text) && text !== REASON;
}

Deno.test("the table of errors lists every error of the sources", () => {
  assert(TEXTS.length > 500, `${TEXTS.length} messages`);
  const codes = new Set(TEXTS.flatMap(({ code }) => code ?? []));
  for (const code of ["not_found", "conflict", "forbidden", "storage_full"]) {
    assert(codes.has(code), code);
  }
});

Deno.test("every error says first what could not be done", () => {
  assertEquals(faulty(({ text }) => text.startsWith("Cannot "), isWhole), []);
});

Deno.test("every error says what was found after a colon, or what was expected", () => {
  const unsaid = faulty(
    ({ text }) => /: |…$|, expected /.test(text),
    (one) => isWhole(one) && one.code !== "internal",
  );
  assertEquals(unsaid, []);
});

Deno.test("what refuses an argument says what was expected", () => {
  const silent = faulty(
    ({ text }) => EXPECTED.test(text),
    ({ maker, place }) => place.startsWith("src/cli/") && maker !== "AgentError",
  );
  assertEquals(silent, []);
});

/** How a refused field names the value that was sent, and how the one that is wanted. */
const FIELD_FOUND = /found|missing|unknown|twice|one too many|is not a param|…/;
const FIELD_EXPECTED = /expected|must |nearest|did you mean|is only for|…/;

Deno.test("every refusal of a field says what was found and what is expected", () => {
  const findings = ({ maker }: ErrorText) => maker === "findings.add";
  assert(TEXTS.filter(findings).length > 25);
  const silent = ({ text }: ErrorText) => FIELD_FOUND.test(text) && FIELD_EXPECTED.test(text);
  assertEquals(faulty(silent, findings), []);
});

Deno.test("no error ends with a full stop, or shows internals", () => {
  const inside = /os error|undefined|\[object|internal error/i;
  const shown = faulty(
    ({ text }) => !text.endsWith(".") && !inside.test(text),
    ({ code }) => code !== "internal",
  );
  assertEquals(shown, []);
});

/** Texts that name the program and no command: its packages, its sample and itself. */
const NO_COMMANDS = /^(?:sample|of this system|database\b|--sha256$|preview)/;

Deno.test("every command that a text of the program names can be typed", async () => {
  const wrong: string[] = [];
  let count = 0;
  for (const { path, text } of await sources("src")) {
    if (/^src\/(?:guest|simulator)\//.test(path)) continue;
    const code = text.replace(/^\s*(?:\/\/|\/?\*).*$/gm, "");
    for (const [, words = ""] of code.matchAll(/["'`]((?:[^"'`\\\n]|\\.)*)["'`]/g)) {
      for (const line of linesIn(words)) {
        if (NO_COMMANDS.test(line)) continue;
        count += 1;
        try {
          // What ends a sentence is no part of a name.
          commandOf((line.split(". ")[0] ?? line).replace(/\.$/, ""));
        } catch (error) {
          wrong.push(`${path}: ${error instanceof Error ? error.message : error}`);
        }
      }
    }
  }
  assertEquals(wrong, []);
  assert(count > 60, `${count} commands`);
});
