// A JSON text while it is being typed: its value, or where it is broken, in the same words in every browser.

/** A JSON object as parsed; its values are not checked. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Why a text is no JSON. */
export interface TextProblem {
  readonly message: string;
  /** Number of characters before the problem. */
  readonly at: number;
  /** Of that place, from 1. */
  readonly line: number;
  readonly column: number;
}

type TextValue =
  | { readonly kind: "value"; readonly value: unknown }
  | { readonly kind: "broken"; readonly problem: TextProblem };

/** Parses a text, or finds the character at which it is broken. */
export function readText(text: string): TextValue {
  try {
    return { kind: "value", value: JSON.parse(text) as unknown };
  } catch {
    const { at, expected } = breakOf(text);
    const before = text.slice(0, at).split("\n");
    const place = { at, line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
    const found = at >= text.length ? "the end" : JSON.stringify(text.charAt(at));
    const message =
      `Line ${place.line}, column ${place.column}: found ${found}, expected ${expected}`;
    return { kind: "broken", problem: { ...place, message } };
  }
}

/** A token behind its blanks: a text, another single value, or a mark. */
const TOKEN =
  /[ \t\r\n]*(?:("(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([{}[\],:]))/uy;
const BLANKS = /[ \t\r\n]*/y;

type Next = "value" | "value or ]" | "key" | "key or }" | ":" | "end of value";

const WORDS: Readonly<Record<Exclude<Next, "end of value">, string>> = {
  value: "a value",
  "value or ]": "a value or ]",
  key: 'a name in "…"',
  "key or }": 'a name in "…" or }',
  ":": "a colon",
};

/** The position at which a text stops being JSON. */
function breakOf(text: string): { readonly at: number; readonly expected: string } {
  const open: ("{" | "[")[] = [];
  let next: Next = "value";
  let at = 0;
  // Each turn passes one token.
  for (;;) {
    TOKEN.lastIndex = at;
    const [, string, single, mark] = TOKEN.exec(text) ?? [];
    const token = string !== undefined ? "text" : single !== undefined ? "single" : mark;
    const after: Next | undefined = token === undefined ? undefined : passed(next, token, open);
    if (after === undefined) return { at: afterBlanks(text, at), expected: expectedOf(next, open) };
    next = after;
    at = TOKEN.lastIndex;
  }
}

function afterBlanks(text: string, at: number): number {
  BLANKS.lastIndex = at;
  BLANKS.exec(text);
  return BLANKS.lastIndex;
}

/** The state after a token; undefined if the token is not allowed there. */
function passed(next: Next, token: string, open: ("{" | "[")[]): Next | undefined {
  const inside = open.at(-1);
  switch (next) {
    case "value":
    case "value or ]":
      if (token === "text" || token === "single") return "end of value";
      if (token === "{" || token === "[") {
        open.push(token);
        return token === "{" ? "key or }" : "value or ]";
      }
      return token === "]" && next === "value or ]" ? closed(open) : undefined;
    case "key":
    case "key or }":
      if (token === "text") return ":";
      return token === "}" && next === "key or }" ? closed(open) : undefined;
    case ":":
      return token === ":" ? "value" : undefined;
    case "end of value":
      if (inside === undefined) return undefined;
      if (token === ",") return inside === "{" ? "key" : "value";
      return token === (inside === "{" ? "}" : "]") ? closed(open) : undefined;
  }
}

function closed(open: ("{" | "[")[]): Next {
  open.pop();
  return "end of value";
}

function expectedOf(next: Next, open: readonly ("{" | "[")[]): string {
  if (next !== "end of value") return WORDS[next];
  const inside = open.at(-1);
  if (inside === undefined) return "the end";
  return inside === "{" ? "a comma or }" : "a comma or ]";
}
