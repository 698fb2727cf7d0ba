// What a caller may see of stored texts: administrators all of it, others without its secrets.

import type { Context } from "hono";
import { JsonMasking } from "../../domain/json_masking.ts";
import { PART_BYTES, type StoredText } from "../../store/stored_text.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { seesSecrets } from "./caller.ts";
import { ownTurn } from "./own_turn.ts";
import { answerText, type Shown, textBytes } from "./text_answer.ts";

/** The member of a job of which every value is a secret. */
const SECRET_MEMBER = { job: "params", other: undefined } as const;
/** A field of a job that is a secret as a whole: who receives callbacks often wants a token in their address. */
const SECRET_FIELD = { job: ["callback_url"], other: [] } as const;

/** How texts are shown to the caller of a request. */
export function shownTo(c: Context<HttpEnv>, kind: keyof typeof SECRET_MEMBER): Shown {
  return seesSecrets(c.get("caller")) ? textBytes : (text) => maskedBytes(text, kind);
}

/** Answers one job. */
export function answerJob(
  c: Context<HttpEnv>,
  text: StoredText,
  deps: Pick<AppDeps, "log" | "budget">,
): Promise<Response> {
  return answerText(c, text, { ...deps, shown: shownTo(c, "job") });
}

async function* maskedBytes(
  text: StoredText,
  kind: keyof typeof SECRET_MEMBER,
): AsyncGenerator<Uint8Array, void> {
  const names = new Set([...SECRET_FIELD[kind], ...namesIn(text.secrets)]);
  const member = SECRET_MEMBER[kind];
  const masking = new JsonMasking({ names, ...(member === undefined ? {} : { member }) });
  for await (const bytes of textBytes(text)) {
    // Of what is masked little is left: many parts may make one piece.
    if (text.bytes > PART_BYTES) await ownTurn();
    yield masking.write(bytes);
  }
}

function namesIn(secrets: string | null): string[] {
  // The text is JSON of this store's making.
  const names: unknown = secrets === null ? [] : JSON.parse(secrets);
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}
