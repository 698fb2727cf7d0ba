// The source of the index, a web server or a folder.

/** The upstream's validators of a document, verbatim; see {@linkcode keptValidator}. */
export interface Validators {
  readonly etag: string | null;
  readonly last_modified: string | null;
}

/** Longest validator kept, characters: each comes back in every later request. */
export const VALIDATOR_CHARS_MAX = 512;

/**
 * A validator fit to be kept and sent again; null for none, and for one that no header can hold.
 */
export function keptValidator(value: string | null): string | null {
  if (value === null || value.length > VALIDATOR_CHARS_MAX) return null;
  return /^[\x20-\x7e]+$/.test(value) ? value : null;
}

/** The answer to a request for a document. */
export type UpstreamAnswer =
  | ({ readonly kind: "document"; readonly body: Uint8Array } & Validators)
  /** The document still matches the validators. */
  | { readonly kind: "unchanged" }
  | { readonly kind: "not_found" };

/** Conditions of one read, and who watches it. */
export interface UpstreamReadOptions {
  /** Validators of the stored document; null to read it unconditionally. */
  readonly known: Validators | null;
  readonly signal?: AbortSignal;
  /**
   * Called with bytes as they arrive.
   * @throws {AgentError} to stop
   */
  readonly onBytes?: (bytes: number) => void;
}

/** Where the index is read from: a web server or a folder. */
export interface Upstream {
  /** As the operator wrote it. */
  readonly address: string;
  /**
   * Reads one document. Names in `path` must have been checked.
   * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
   */
  read(path: string, options: UpstreamReadOptions): Promise<UpstreamAnswer>;
}
