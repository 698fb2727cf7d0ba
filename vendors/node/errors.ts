// Deno's errors by Node's codes.

import { format, getSystemErrorMap } from "node:util";

/** Deno's errors, and the codes of Node that mean each; other codes stay plain errors. */
const CODES = {
  AddrInUse: "EADDRINUSE",
  AddrNotAvailable: "EADDRNOTAVAIL",
  AlreadyExists: "EEXIST",
  BadResource: "EBADF ERR_STREAM_DESTROYED",
  BrokenPipe: "EPIPE",
  Busy: "EBUSY",
  ConnectionAborted: "ECONNABORTED",
  ConnectionRefused: "ECONNREFUSED",
  ConnectionReset: "ECONNRESET",
  FilesystemLoop: "ELOOP",
  Http: "",
  Interrupted: "EINTR",
  InvalidData: "EPROTO",
  IsADirectory: "EISDIR",
  NetworkUnreachable: "ENETUNREACH",
  NotADirectory: "ENOTDIR",
  NotCapable: "ERR_ACCESS_DENIED ERR_DLOPEN_DISABLED",
  NotConnected: "ENOTCONN",
  NotFound: "ENODATA ENOENT ENOTFOUND ESRCH",
  PermissionDenied: "EACCES EPERM",
  TimedOut: "ETIMEDOUT",
  WouldBlock: "EAGAIN",
} as const;

type ErrorName = keyof typeof CODES;
type ErrorClass = new (message: string, options?: ErrorOptions) => Error;

function classOf(name: string): ErrorClass {
  return class extends Error {
    override readonly name = name;
    static override readonly name = name;
  };
}

/** Deno.errors. */
export const errors = Object.fromEntries(
  Object.keys(CODES).map((name) => [name, classOf(name)]),
) as Record<ErrorName, ErrorClass>;

const byCode = new Map(
  Object.entries(CODES).flatMap(([name, codes]) =>
    codes.split(" ").map((code) => [code, errors[name as ErrorName]] as const)
  ),
);

const systemErrors = getSystemErrorMap();

/** What Node says of a failed system call. */
interface NodeError {
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly syscall?: unknown;
  readonly path?: unknown;
  readonly dest?: unknown;
  readonly message?: unknown;
}

/** Deno's words, by which the program recognizes what the system refused. */
function wordsOf({ errno, syscall, path, dest, message }: NodeError): string {
  const [, said = ""] = typeof errno === "number" ? systemErrors.get(errno) ?? [] : [];
  if (said === "") return typeof message === "string" ? message : format(message);
  const files = [path, dest].filter((one) => typeof one === "string").map((one) => `'${one}'`);
  const call = files.length === 0 ? "" : `: ${String(syscall).split(" ")[0]} ${files.join(" -> ")}`;
  return `${said.slice(0, 1).toUpperCase()}${said.slice(1)} (os error ${-Number(errno)})${call}`;
}

/** Deno's error for one of Node's; anything else is returned as it is. */
export function denoError(error: unknown): unknown {
  if (typeof error !== "object" || error === null) return error;
  const { code, errno }: NodeError = error;
  const known = typeof code === "string" ? byCode.get(code) : undefined;
  if (known === undefined && typeof errno !== "number") return error;
  const Class = code === "EINVAL" ? TypeError : known ?? Error;
  return Object.assign(new Class(wordsOf(error), { cause: error }), { code });
}

/** Deno's error for a number with which the system refuses. */
export function errorOfNumber(errno: number): unknown {
  const [code = ""] = systemErrors.get(errno) ?? [];
  return denoError({ code, errno });
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
    run((error, value) => error ? reject(denoError(error)) : resolve(value));
  });
}
