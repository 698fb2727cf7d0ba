// The way to an agent and what is shown to it: over a socket or with certificates of one's own, and with
// a token from a file. Files are read with the first call.

import { AgentError, messageOf } from "../../domain/error.ts";
import { isTokenText } from "../../domain/token.ts";
import type { AgentAddress, Credentials } from "./api_call.ts";
import { usageError } from "./arguments.ts";

/** What a request or a WebSocket needs besides its URL. */
export interface Connected {
  readonly headers: Record<string, string>;
  readonly http: Deno.HttpClient | undefined;
}

/** A way that is opened when it is first gone. */
export interface Connection {
  /** @throws {AgentError} `invalid_argument` for a file that is no good */
  get(): Promise<Connected>;
  close(): void;
}

const LOOPBACK_URL = /^http:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?(?:\/|$)/;

/** Makes the way; nothing is read or connected yet. */
export function openConnection(address: AgentAddress, credentials: Credentials): Connection {
  let opened: Promise<Connected> | undefined;
  let http: Deno.HttpClient | undefined;
  const open = async () => {
    const headers = await headersOf(address, credentials.tokenFile);
    if (address.kind === "socket") {
      http = Deno.createHttpClient({ proxy: { transport: "unix", path: address.path } });
    } else if (credentials.caFile !== undefined) {
      http = trusting(await readText(credentials.caFile, "--ca"), credentials.caFile);
    }
    return { headers, http };
  };
  return {
    get: () => opened ??= open(),
    close: () => http?.close(),
  };
}

function trusting(pem: string, path: string): Deno.HttpClient {
  try {
    if (!pem.includes("-----BEGIN CERTIFICATE-----")) throw new Error("it holds no certificate");
    return Deno.createHttpClient({ caCerts: [pem] });
  } catch (error) {
    throw usageError(`--ca ${path}: ${messageOf(error)}`);
  }
}

async function headersOf(
  address: AgentAddress,
  tokenFile: string | undefined,
): Promise<Record<string, string>> {
  if (tokenFile === undefined) return {};
  const token = (await readText(tokenFile, "--token-file")).trim();
  if (!isTokenText(token)) throw usageError(`--token-file ${tokenFile}: it holds no token`);
  if (
    address.kind === "url" && !address.base.startsWith("https:") && !LOOPBACK_URL.test(address.base)
  ) {
    const message = `Cannot send a token to ${address.base}: expected https, or this host`;
    throw new AgentError("forbidden", message);
  }
  return { authorization: `Bearer ${token}` };
}

async function readText(path: string, flag: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    throw usageError(`${flag} ${path}: ${messageOf(error)}`);
  }
}
