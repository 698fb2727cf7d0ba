// What a source of the index answers, whether it is a web server or a folder.

/** What the upstream said of a document when we last took it, verbatim. */
export interface Validators {
  readonly etag: string | null;
  readonly last_modified: string | null;
}

/** What a source says when it is asked for a document. */
export type UpstreamAnswer =
  | ({ readonly kind: "document"; readonly body: Uint8Array } & Validators)
  /** The document is the one that the validators belong to. */
  | { readonly kind: "unchanged" }
  | { readonly kind: "not_found" };

/** A source of the index. */
export interface Upstream {
  /** As the operator wrote it. */
  readonly address: string;
  /**
   * Reads one document. Names in `path` must have been checked.
   * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
   */
  read(path: string, known: Validators | null, signal?: AbortSignal): Promise<UpstreamAnswer>;
}
