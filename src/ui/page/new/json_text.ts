// A JSON text while it is being typed: its value, or where it is broken, in the same words in every browser.

import { jsonMistake } from "../../../domain/json_problem.ts";

/** A JSON object as parsed; its values are not checked. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Why a text is not JSON. */
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
    const mistake = jsonMistake(text) ??
      { at: 0, line: 1, column: 1, found: "a text", expected: "JSON" };
    const { at, line, column, found, expected } = mistake;
    const message = `Line ${line}, column ${column}: found ${found}, expected ${expected}`;
    return { kind: "broken", problem: { at, line, column, message } };
  }
}
