// What a guest could send, made up at random: the parser and the reader of lines refuse it in the
// words they promise or take it whole, and hold no more of it than one line. ZONEWRIGHT_CHAOS=full
// tries a hundred thousand messages.

import { assert, assertEquals, assertInstanceOf } from "@std/assert";
import fc from "fast-check";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { AgentError } from "../../src/domain/error.ts";
import { parseGuestMessage } from "../../src/sandbox/untrusted_message.ts";
import { type ByteSource, readLines } from "../../src/wall/lines.ts";
import {
  CAPABILITIES,
  type GuestMessage,
  JSON_DEPTH_MAX,
  SIGNALS,
} from "../../src/wall/protocol.ts";
import { LOG_LEVELS } from "../../src/domain/job/log_line.ts";

const MESSAGES = Deno.env.get("ZONEWRIGHT_CHAOS") === "full" ? 100_000 : 5000;
/** A stream is many lines. */
const STREAMS = MESSAGES / 10;
/** The limit of lines for the streams of this file: short, so that many lines are over it. */
const LINE_BYTES_MAX = 200;

/** Texts with what could end a line, a text or an object. */
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc.constantFrom("\n", "\t", "\u2028", "\ud800", '"}', "\0", "\ufeff", "constructor", "toJSON"),
);
/** Values of JSON, where -0 and infinity do not exist. */
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(null, true, false, 0, 1e308, -1.5),
    fc.integer(),
    text,
    fc.array(tie("value"), { maxLength: 4 }),
    tie("object"),
  ),
  object: fc.dictionary(text, tie("value"), { maxKeys: 4 }),
}));
const counter = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const outcome = fc.oneof(
  fc.record({ kind: fc.constant("success"), result: json.value, job: json.object }),
  fc.record({
    kind: fc.constant("failure"),
    error: json.value,
    job: fc.option(json.object),
  }),
  fc.record({
    kind: fc.constant("signal"),
    word: fc.constantFrom(...SIGNALS),
    result: json.value,
    job: json.object,
  }),
);
const message = fc.oneof(
  fc.record({
    type: fc.constant("ready"),
    checks: fc.array(fc.record({ check: text, ok: fc.boolean(), detail: text }), { maxLength: 64 }),
  }),
  fc.record({
    type: fc.constant("call"),
    run: counter,
    call: counter,
    name: fc.constantFrom(...CAPABILITIES),
    args: fc.array(json.value, { maxLength: 8 }),
  }),
  fc.record({
    type: fc.constant("log"),
    run: counter,
    level: fc.constantFrom(...LOG_LEVELS),
    message: text,
    fields: json.object,
  }),
  fc.record({ type: fc.constant("end"), run: counter, outcome }),
  fc.record({ type: fc.constant("closed"), run: counter, spent: fc.boolean() }),
);
/** What may stand where a message has something else, as JSON text. */
const wrong = fc.oneof(
  fc.json({ depthSize: "small" }),
  fc.constantFrom("-0", "1e400", "-1", "9007199254740992", '"__proto__"', "[[[[]]]]"),
  fc.integer({ min: JSON_DEPTH_MAX - 2, max: JSON_DEPTH_MAX * 50 }).map((levels) =>
    "[".repeat(levels) + "]".repeat(levels)
  ),
  fc.constantFrom("", "{", "NaN", "undefined", "1,", '"\\u00'),
);

const checked = { numRuns: MESSAGES };

/** What the parser makes of a line, or undefined for its one refusal. */
function parsed(line: string): GuestMessage | undefined {
  try {
    return parseGuestMessage(line, DEFAULT_LIMITS);
  } catch (error) {
    assertInstanceOf(error, AgentError);
    assertEquals(error.code, "malformed");
    assert(error.message.startsWith("Cannot read a message of a guest: "), error.message);
    return undefined;
  }
}

/** What the parser keeps of a message: all but the keys named `__proto__`. */
function kept(sent: unknown): string {
  return JSON.stringify(sent, (key, value) => key === "__proto__" ? undefined : value);
}

/** A message that is taken is the same one when it is written and read again. */
function takenWhole(line: string): void {
  const once = parsed(line);
  if (once === undefined) return;
  const written = JSON.stringify(once);
  if (once.type === "call" && "flaw" in once.args) return;
  assertEquals(JSON.stringify(parsed(written)), written);
}

Deno.test("every message of the protocol is parsed as it was written", () => {
  fc.assert(
    fc.property(message, (sent) => {
      const line = JSON.stringify(sent);
      // Compared as texts, in which keys stand in their order.
      assertEquals(JSON.stringify(parsed(line)), kept(sent));
    }),
    checked,
  );
});

Deno.test("a message with one changed value is refused or accepted whole", () => {
  fc.assert(
    fc.property(message, fc.nat(), wrong, (sent, at, instead) => {
      const line = JSON.stringify(sent);
      // Each value and each name of the line is a place.
      const places = [...line.matchAll(/"(?:[^"\\]|\\.)*"|-?\d+|null|true|false|[[{]/g)];
      const place = places[at % places.length];
      if (place === undefined) return;
      const end = place.index + place[0].length;
      takenWhole(line.slice(0, place.index) + instead + line.slice(end));
    }),
    checked,
  );
});

Deno.test("a message that was cut, doubled or mixed with another is refused or accepted whole", () => {
  fc.assert(
    fc.property(message, message, fc.nat(), fc.nat(), (one, other, from, to) => {
      const [first, second] = [JSON.stringify(one), JSON.stringify(other)];
      const cut = first.slice(0, from % (first.length + 1));
      takenWhole(cut);
      takenWhole(cut + second.slice(to % (second.length + 1)));
      assertEquals(parsed(first + second), undefined);
      takenWhole(JSON.stringify({ ...one, ...other }));
    }),
    checked,
  );
});

Deno.test("any text is refused or accepted whole", () => {
  const any = fc.oneof(fc.string({ unit: "binary" }), fc.json(), wrong);
  fc.assert(fc.property(any, takenWhole), checked);
});

/** Gives bytes in chunks of the sizes, and counts how many it has given. */
function chunks(bytes: Uint8Array, sizes: readonly number[]): ByteSource & { given: number } {
  let turn = 0;
  return {
    given: 0,
    read(buffer) {
      if (this.given === bytes.length) return Promise.resolve(null);
      const size = Math.min(sizes[turn++ % sizes.length] ?? 1, buffer.length);
      const chunk = bytes.subarray(this.given, this.given + size);
      buffer.set(chunk);
      this.given += chunk.length;
      return Promise.resolve(chunk.length);
    },
  };
}

const sizes = fc.array(fc.integer({ min: 1, max: 150 }), { minLength: 1, maxLength: 8 });

Deno.test("lines of any bytes are returned whole, or refused before two are in memory", async () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 500 }),
    fc.array(message, { maxLength: 4 }).map((all) =>
      new TextEncoder().encode(all.map((one) => `${JSON.stringify(one)}\n`).join(""))
    ),
    fc.integer({ min: LINE_BYTES_MAX - 2, max: LINE_BYTES_MAX * 50 })
      .map((length) => new Uint8Array(length).fill(32)),
  );
  await fc.assert(
    fc.asyncProperty(bytes, sizes, async (sent, sizes) => {
      const source = chunks(sent, sizes);
      const largest = Math.max(...sizes);
      const lines: string[] = [];
      // Bytes of the lines given so far, with their breaks.
      let reported = 0;
      let refusal: unknown;
      try {
        for await (const line of readLines(source, LINE_BYTES_MAX)) {
          lines.push(line);
          reported = sent.indexOf(10, reported) + 1;
          assert(line.length <= LINE_BYTES_MAX);
        }
      } catch (error) {
        refusal = error;
      }
      // What was read and not given yet is one line at most, and the chunk that broke its limit.
      if (refusal === undefined || refusal instanceof RangeError) {
        assert(source.given - reported <= LINE_BYTES_MAX + largest);
      }
      assertEquals([lines, kindOf(refusal)], expected(sent));
    }),
    { numRuns: STREAMS },
  );
});

function kindOf(refusal: unknown): string | undefined {
  if (refusal === undefined) return undefined;
  assert(refusal instanceof RangeError || refusal instanceof TypeError, String(refusal));
  return refusal.name;
}

/** The lines of bytes that are all there, and the refusal that ends them. */
function expected(bytes: Uint8Array): [string[], string | undefined] {
  const lines: string[] = [];
  let from = 0;
  for (let to = bytes.indexOf(10); to !== -1; to = bytes.indexOf(10, from)) {
    if (to - from > LINE_BYTES_MAX) return [lines, "RangeError"];
    try {
      lines.push(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(from, to)));
    } catch {
      return [lines, "TypeError"];
    }
    from = to + 1;
  }
  return [lines, bytes.length - from > LINE_BYTES_MAX ? "RangeError" : undefined];
}

Deno.test("a stream gives the messages that were sent, wherever it is cut", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 6 }), sizes, async (sent, sizes) => {
      const lines = sent.map((one) => JSON.stringify(one));
      const bytes = new TextEncoder().encode(lines.map((line) => `${line}\n`).join(""));
      const got: string[] = [];
      for await (const line of readLines(chunks(bytes, sizes), bytes.length)) {
        got.push(JSON.stringify(parsed(line)));
      }
      assertEquals(got, sent.map(kept));
    }),
    { numRuns: STREAMS },
  );
});
