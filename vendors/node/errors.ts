// Deno's errors by Node's codes.

import { format } from "node:util";

/** What Node says of a failed system call. */
interface NodeError {
  readonly code?: unknown;
  readonly message?: unknown;
}

const NAMES = [
  "AddrInUse",
  "AddrNotAvailable",
  "AlreadyExists",
  "BadResource",
  "BrokenPipe",
  "Busy",
  "ConnectionAborted",
  "ConnectionRefused",
  "ConnectionReset",
  "FilesystemLoop",
  "Http",
  "Interrupted",
  "InvalidData",
  "IsADirectory",
  "NetworkUnreachable",
  "NotADirectory",
  "NotCapable",
  "NotConnected",
  "NotFound",
  "NotSupported",
  "PermissionDenied",
  "TimedOut",
  "UnexpectedEof",
  "WouldBlock",
  "WriteZero",
] as const;

/** The name of one of Deno's errors. */
export type ErrorName = typeof NAMES[number];

type ErrorClass = new (message: string, options?: ErrorOptions) => Error;

function errorClass(name: ErrorName): ErrorClass {
  const made = {
    [name]: class extends Error {
      override readonly name = name;
    },
  };
  // Just made above, under this name.
  return made[name] as ErrorClass;
}

/** Deno.errors. */
export const errors = Object.fromEntries(
  NAMES.map((name) => [name, errorClass(name)]),
) as Record<ErrorName, ErrorClass>;

/** Codes of Node for which Deno has an error of its own; others stay plain errors. */
const BY_CODE: Readonly<Record<string, ErrorName>> = {
  EACCES: "PermissionDenied",
  EADDRINUSE: "AddrInUse",
  EADDRNOTAVAIL: "AddrNotAvailable",
  EAGAIN: "WouldBlock",
  EBADF: "BadResource",
  EBUSY: "Busy",
  ECONNABORTED: "ConnectionAborted",
  ECONNREFUSED: "ConnectionRefused",
  ECONNRESET: "ConnectionReset",
  EEXIST: "AlreadyExists",
  EINTR: "Interrupted",
  EISDIR: "IsADirectory",
  ELOOP: "FilesystemLoop",
  ENETUNREACH: "NetworkUnreachable",
  ENODATA: "NotFound",
  ENOENT: "NotFound",
  ENOTCONN: "NotConnected",
  ENOTDIR: "NotADirectory",
  ENOTFOUND: "NotFound",
  EPERM: "PermissionDenied",
  EPIPE: "BrokenPipe",
  EPROTO: "InvalidData",
  ESRCH: "NotFound",
  ETIMEDOUT: "TimedOut",
  ERR_ACCESS_DENIED: "NotCapable",
  ERR_DLOPEN_DISABLED: "NotCapable",
  ERR_STREAM_DESTROYED: "BadResource",
};

/** Deno's error for one of Node's; anything else is returned as it is. */
export function denoError(error: unknown): unknown {
  if (typeof error !== "object" || error === null) return error;
  const { code, message }: NodeError = error;
  if (code === "EINVAL") return new TypeError(wordsOf(message), { cause: error });
  const name = typeof code === "string" ? BY_CODE[code] : undefined;
  if (name === undefined) return error;
  const made = new errors[name](wordsOf(message), { cause: error });
  return Object.assign(made, { code });
}

function wordsOf(message: unknown): string {
  return typeof message === "string" ? message : format(message);
}

/** Runs what may fail the way of Node, and fails the way of Deno. */
export function asDeno<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw denoError(error);
  }
}

/** The same for what answers later. */
export async function asDenoLater<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw denoError(error);
  }
}

/** Calls a function of Node that takes a callback. */
export function called<T>(
  run: (done: (error: Error | null | undefined, value: T) => void) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    run((error, value) =>
      error === null || error === undefined ? resolve(value) : reject(denoError(error))
    );
  });
}
