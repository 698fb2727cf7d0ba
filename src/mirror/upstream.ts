// What a source of the index answers, whether it is a web server or a folder.

/** What the upstream said of a document when we last took it, verbatim; see {@linkcode keptValidator}. */
export interface Validators {
  readonly etag: string | null;
  readonly last_modified: string | null;
}

/** Characters of a validator; one that is longer would come back in every later request. */
export const VALIDATOR_CHARS_MAX = 512;

/** A validator as it may be kept and shown again; null for none, and for one that no header can hold. */
export function keptValidator(value: string | null): string | null {
  if (value === null || value.length > VALIDATOR_CHARS_MAX) return null;
  return /^[\x20-\x7e]+$/.test(value) ? value : null;
}

/** What a source says when it is asked for a document. */
export type UpstreamAnswer =
  | ({ readonly kind: "document"; readonly body: Uint8Array } & Validators)
  /** The document is the one that the validators belong to. */
  | { readonly kind: "unchanged" }
  | { readonly kind: "not_found" };

/** How a document is read. */
export interface ReadOptions {
  /** What the document was when it was taken; null to have it whatever it is. */
  readonly known: Validators | null;
  readonly signal?: AbortSignal;
  /**
   * Told of bytes as they come.
   * @throws {AgentError} to have no more of them
   */
  readonly onBytes?: (bytes: number) => void;
}

/** A source of the index. */
export interface Upstream {
  /** As the operator wrote it. */
  readonly address: string;
  /**
   * Reads one document. Names in `path` must have been checked.
   * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
   */
  read(path: string, options: ReadOptions): Promise<UpstreamAnswer>;
}
