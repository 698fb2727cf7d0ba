// Why a document was not taken, as reports and the log tell it.

import { AgentError, messageOf } from "../../domain/error.ts";
import { RefusedDocument } from "../../domain/index/index_document.ts";
import type { IndexProblem } from "../../store/store.ts";

/**
 * A document that is sound by itself and contradicts another one of its tree. It may be one that was
 * being written while it was read, so it is worth a second look.
 */
export class Contradiction extends RefusedDocument {}

/** A document that could not be read. */
export class UnreadDocument extends AgentError {
  readonly document: string;

  constructor(document: string, error: AgentError) {
    super(error.code, error.message, { cause: error });
    this.document = document;
  }
}

/**
 * What went wrong with a document.
 * @param parent the document to name when the error names none
 */
export function problemOf(error: AgentError, parent: string): IndexProblem {
  const message = messageOf(error);
  if (error instanceof UnreadDocument) return { document: error.document, message };
  if (!(error instanceof RefusedDocument)) return { document: parent, message };
  const { place, reason } = error;
  return { document: place.document, message, json_path: place.path, reason };
}

/** Whether an error tells of the upstream; every other one is the caller's or a defect. */
export function isProblem(error: unknown, signal: AbortSignal | undefined): error is AgentError {
  return error instanceof AgentError && signal?.aborted !== true;
}
