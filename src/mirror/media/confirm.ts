// Compares what the index says of a file with what its vendor publishes now, before a download. A vendor that
// contradicts the index always refuses the file; a vendor that says nothing leaves the file at the level
// already reached.

import type { DecoderOptions } from "../../decoder/work_order.ts";
import type { Decoders } from "../../decoder/pool.ts";
import { type CheckLevel, isDigestValue, reaches } from "../../domain/digest.ts";
import { CHECKSUM_FORMATS } from "../../decoder/work/checksums.ts";
import { AgentError } from "../../domain/error.ts";
import type { Now } from "../../domain/instant.ts";
import type { PublishedDigest, Signature } from "../../domain/index/artifact.ts";
import {
  checkClearsigned,
  checkDetached,
  checkDetachedFile,
  readKeyFolder,
  type SignatureCheck,
  type Signed,
} from "./openpgp_check.ts";
import type { WantedFile } from "./wanted_file.ts";
import { ask, failure, shown, type Web } from "../web/request.ts";
import { withRetries } from "../web/retry.ts";
import { openDeadline, type TimeLimits, type Wait } from "../web/time_limits.ts";

/** What a file is checked against: the vendor's documents and the operator's keys. */
export interface ConfirmDependencies extends VendorWeb {
  readonly decoders: Decoders;
  /** Folder of trusted keys; null for none. */
  readonly keyDir: string | null;
  readonly now: Now;
}

/** The level that the checks reached. */
export interface Confirmed {
  readonly level: CheckLevel;
  /** Why they did not go further. */
  readonly reason: string;
  /** Checks the downloaded file itself, where the signature covers it. */
  readonly vet?: (path: string, signal: AbortSignal) => Promise<void>;
}

/**
 * Checks up to the requested level, and no further.
 * @throws {AgentError} `digest_mismatch` when the vendor publishes another digest; `upstream`,
 *   `timeout` or `aborted` when the vendor could not be asked
 */
export async function confirm(
  deps: ConfirmDependencies,
  wanted: WantedFile,
  level: CheckLevel,
  signal?: AbortSignal,
): Promise<Confirmed> {
  if (wanted.digests.length === 0) return { level: "none", reason: "nothing gives its digest" };
  if (!reaches(level, "vendor")) return { level: "index", reason: "no higher level was requested" };
  const unconfirmed = await againstVendor(deps, wanted, signal);
  if (unconfirmed !== undefined) return { level: "index", reason: unconfirmed };
  if (level === "vendor") return { level, reason: "no higher level was requested" };
  return await againstSignatures(deps, wanted, signal);
}

/** Fetches the vendor's document for every digest. @returns why one could not be confirmed */
async function againstVendor(
  deps: ConfirmDependencies,
  { published, label, distro }: WantedFile,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  if (published.length === 0) return "no vendor document confirms its digest";
  for (const digest of published) {
    const { source } = digest;
    if (source === null) return `the index gives no source for its ${digest.algorithm}`;
    const { url } = source;
    const document = await readVendorDocument(deps, url, "checksums", signal);
    if (document === undefined) return `${shown(url)} does not exist`;
    const reason = await listed(deps, document, digest, { url, label, distro, signal });
    if (reason !== undefined) return reason;
  }
  return undefined;
}

/**
 * Compares a digest of the index with the document that lists it.
 * @returns why the document lists no such digest
 * @throws {AgentError} `digest_mismatch`
 */
async function listed(
  { decoders }: ConfirmDependencies,
  document: Uint8Array,
  { algorithm, value, source }: PublishedDigest,
  { label, ...origin }: VendorSource & { readonly label: string },
): Promise<string | undefined> {
  const { url } = origin;
  const format = CHECKSUM_FORMATS.find((known) => known === source?.format);
  if (format === undefined) return `${shown(url)} has the format ${source?.format}`;
  const filename = source?.filename ?? "";
  const request = { format, algorithm, filename };
  const options = decoderOptions(`read ${shown(url)}`, origin);
  const answer = await decoders.ask("checksums", request, document, options);
  const hashes = (Array.isArray(answer) ? answer : []).filter((hash) =>
    typeof hash === "string" && isDigestValue(algorithm, hash)
  );
  if (hashes.length === 0) return `${shown(url)} does not list ${filename || "a hash"}`;
  const other = hashes.find((hash) => hash !== value);
  if (other === undefined) return undefined;
  const message = `Cannot accept ${label}: the index says its ${algorithm} is ${value}, ` +
    `${shown(url)} says ${other}`;
  throw new AgentError("digest_mismatch", message);
}

/** Where a document comes from, and how long the caller waits for it. */
interface VendorSource {
  readonly url: string;
  readonly distro: string | null;
  readonly signal: AbortSignal | undefined;
}

/**
 * Documents of one vendor may share a decoder. A vendor is one host and one distro, since many
 * vendors publish on the same hosts.
 */
function decoderOptions(what: string, { url, distro, signal }: VendorSource): DecoderOptions {
  const origin = `${distro ?? ""} ${URL.parse(url)?.host ?? url}`;
  return { what, origin, ahead: true, ...(signal === undefined ? {} : { signal }) };
}

async function againstSignatures(
  deps: ConfirmDependencies,
  wanted: WantedFile,
  signal: AbortSignal | undefined,
): Promise<Confirmed> {
  const at = (reason: string): Confirmed => ({ level: "vendor", reason });
  if (deps.keyDir === null) return at("the setting key_dir is not set");
  const keys = await readKeyFolder(deps.keyDir, wanted.distro);
  const now = new Date(deps.now());
  let reason = "the index names no signature for it";
  for (const signature of wanted.signatures) {
    const options = decoderOptions(
      `check the signature ${shown(signature.url)} of ${wanted.label}`,
      { url: signature.url, distro: wanted.distro, signal },
    );
    const check = { decoders: deps.decoders, keys, now, options };
    const outcome = await againstSignature(deps, wanted, signature, check);
    if (typeof outcome !== "string") return outcome;
    reason = outcome;
  }
  return at(reason);
}

/** @returns the level reached, or why the signature says nothing */
async function againstSignature(
  deps: ConfirmDependencies,
  wanted: WantedFile,
  { kind, signs, url }: Signature,
  check: SignatureCheck,
): Promise<Confirmed | string> {
  const { label, distro } = wanted;
  const { signal } = check.options;
  if (kind !== "pgp_detached" && kind !== "pgp_clearsigned") {
    return `its signature has the kind ${kind}`;
  }
  const size = kind === "pgp_detached" ? "signature" : "signed";
  const bytes = await readVendorDocument(deps, url, size, signal);
  if (bytes === undefined) return `${shown(url)} does not exist`;
  if (kind === "pgp_detached" && wanted.urls.includes(signs)) {
    const vet = async (path: string, shares: AbortSignal) => {
      // Other callers may share the download, so it does not end with this caller.
      const options = { ...check.options, signal: shares };
      const signed = await checkDetachedFile(path, bytes, { ...check, options });
      const reason = unknownKey(signed, url, wanted);
      if (reason !== undefined) throw notSigned(label, reason);
    };
    return { level: "signature", reason: "", vet };
  }
  const signed = await signedText(deps, { kind, signs }, bytes, check);
  if (signed === undefined) return `${shown(signs)} does not exist`;
  if (signed.kind === "unknown_key") return unknownKey(signed, url, wanted) ?? "";
  const covered = wanted.published.filter((digest) => digest.source?.url === signs);
  if (covered.length === 0) return `${shown(signs)} is not the source of its digests`;
  for (const digest of covered) {
    const reason = await listed(deps, signed.text, digest, { url: signs, label, distro, signal });
    if (reason !== undefined) return reason;
  }
  return { level: "signature", reason: "" };
}

async function signedText(
  deps: ConfirmDependencies,
  { kind, signs }: { readonly kind: string; readonly signs: string },
  bytes: Uint8Array,
  check: SignatureCheck,
): Promise<Signed | undefined> {
  if (kind === "pgp_clearsigned") return await checkClearsigned(bytes, check);
  const document = await readVendorDocument(deps, signs, "signed", check.options.signal);
  return document === undefined ? undefined : await checkDetached(document, bytes, check);
}

function unknownKey(
  signed: Signed,
  url: string,
  { distro }: WantedFile,
): string | undefined {
  if (signed.kind === "good") return undefined;
  const ids = signed.key_ids.join(", ") || "none";
  const whose = distro === null ? "" : ` for ${distro}`;
  return `${shown(url)} is signed by ${ids}, which is not a trusted key${whose}`;
}

/** A signature that no trusted key can check leaves the file unsigned. */
function notSigned(label: string, reason: string): AgentError {
  return new AgentError("forbidden", `Cannot accept ${label}: ${reason}`);
}

/** Largest size of each kind of document, bytes. */
export const VENDOR_BYTES_MAX = {
  /** The lists of the largest vendors have a few hundred kilobytes. */
  checksums: 8 * 1024 * 1024,
  /** A signed text, with or without its signature. */
  signed: 1024 * 1024,
  /** A detached signature, usually a few hundred bytes. */
  signature: 64 * 1024,
} as const;

interface VendorWeb {
  readonly web: Web;
  readonly times: TimeLimits;
  readonly wait: Wait;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
}

/**
 * Reads a checksum list or a signature from its server, each time; undefined when the vendor no
 * longer has it.
 * @throws {AgentError} `upstream`, `timeout`, `too_large` or `aborted`
 */
async function readVendorDocument(
  vendor: VendorWeb,
  url: string,
  kind: keyof typeof VENDOR_BYTES_MAX,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const share = signal === undefined ? {} : { signal };
  return await withRetries(() => readOnce(vendor, url, VENDOR_BYTES_MAX[kind], signal), {
    ...vendor,
    ...share,
  });
}

async function readOnce(
  { web, times }: VendorWeb,
  url: string,
  bytesMax: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  const what = `read ${shown(url)}`;
  const deadline = openDeadline(times.answerMs, what, signal);
  try {
    const response = await ask(web, url, { headers: { accept: "*/*" }, deadline });
    if (response.status !== 200) {
      await response.body?.cancel();
      if (response.status === 404 || response.status === 410) return undefined;
      throw new AgentError("upstream", `Cannot ${what}: the server answered ${response.status}`);
    }
    const parts: Uint8Array[] = [];
    let size = 0;
    try {
      for await (const part of response.body ?? []) {
        size += part.byteLength;
        if (size > bytesMax) {
          const message = `Cannot ${what}: it has more than ${bytesMax} bytes`;
          throw new AgentError("too_large", message);
        }
        parts.push(part);
        deadline.extend(times.idleMs);
      }
    } catch (error) {
      await response.body?.cancel().catch(() => {});
      throw failure(error, deadline.signal, what);
    }
    return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
  } finally {
    deadline.clear();
  }
}
