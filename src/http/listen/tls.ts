// TLS by a certificate and a key in files, as certbot and others put them there. Reading them again is
// how a renewed certificate is taken.

import { AgentError, messageOf } from "../../domain/error.ts";

/** Where the certificate is, with those between it and its root, and its key; both PEM. */
export interface TlsFiles {
  readonly certPath: string;
  readonly keyPath: string;
}

/** A certificate with its key, which fit together. */
export interface TlsIdentity {
  readonly cert: string;
  readonly key: string;
}

/** Rights of group and others. */
const OTHERS = 0o077;

/**
 * Reads both files, and proves that the system can serve with them.
 * @throws {AgentError} `invalid_argument` for files that cannot be read, or do not fit together;
 * `forbidden` for a key that others may read
 */
export async function readTlsIdentity({ certPath, keyPath }: TlsFiles): Promise<TlsIdentity> {
  const identity = { cert: await read(certPath), key: await read(keyPath) };
  const { mode } = await Deno.stat(keyPath);
  if (((mode ?? 0) & OTHERS) !== 0) {
    const shown = ((mode ?? 0) & 0o777).toString(8).padStart(4, "0");
    const message = `Cannot use the key ${keyPath}: its mode is ${shown}, expected 0600`;
    throw new AgentError("forbidden", message);
  }
  try {
    // Nobody connects: what counts is that a listener can be made of them.
    Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...identity }).close();
  } catch (error) {
    const message = `Cannot serve TLS with ${certPath} and ${keyPath}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
  return identity;
}

async function read(path: string): Promise<string> {
  try {
    // Opening a pipe would wait for who writes to it.
    if (!(await Deno.stat(path)).isFile) throw new Error("it is no plain file");
    return await Deno.readTextFile(path);
  } catch (error) {
    const message = `Cannot read ${path}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}
