// The certificate and key of TLS, in files as certbot writes them. They are read again to renew the
// certificate.

import { AgentError, messageOf, systemReason } from "../../domain/error.ts";

/** Paths of the certificate chain and its key, both PEM. */
interface TlsFiles {
  readonly certPath: string;
  readonly keyPath: string;
}

/** A certificate and its matching key. */
export interface TlsIdentity {
  readonly cert: string;
  readonly key: string;
}

/** Rights of group and others. */
const OTHERS = 0o077;

/**
 * Reads both files, and checks that TLS can be served with them.
 * @throws {AgentError} `invalid_argument` for files that cannot be read, or do not match;
 * `forbidden` for a key that others may read
 */
export async function readTlsIdentity({ certPath, keyPath }: TlsFiles): Promise<TlsIdentity> {
  const identity = { cert: await read(certPath), key: await read(keyPath) };
  const { mode } = await Deno.stat(keyPath);
  if (((mode ?? 0) & OTHERS) !== 0) {
    const shown = ((mode ?? 0) & 0o777).toString(8).padStart(4, "0");
    const message = `Cannot use the key ${keyPath}: its mode is ${shown}, expected 0600: ` +
      `chmod 600 ${keyPath}`;
    throw new AgentError("forbidden", message);
  }
  try {
    // Opened only to check that TLS works with them.
    Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...identity }).close();
  } catch (error) {
    const message = `Cannot serve TLS with ${certPath} and ${keyPath}: ${messageOf(error)}: ` +
      "expected a certificate and its own key, both PEM";
    throw new AgentError("invalid_argument", message, { cause: error });
  }
  return identity;
}

async function read(path: string): Promise<string> {
  try {
    // Opening a pipe would wait for a writer.
    if (!(await Deno.stat(path)).isFile) throw new Error("it is not a regular file");
    return await Deno.readTextFile(path);
  } catch (error) {
    const message = `Cannot read ${path}: ${systemReason(error)}: expected a PEM file`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}
