// A host whose vmadm has less time, so that a test sees a deadline pass.

import type { Transport } from "../../src/host/transport.ts";

/** Milliseconds by subcommand; the others keep their time. */
export type SubcommandMs = Readonly<Record<string, number>>;

export function withDeadlines(transport: Transport, limitsMs: SubcommandMs): Transport {
  return {
    ...transport,
    vmadm: (args, options) =>
      transport.vmadm(args, {
        ...options,
        deadlineMs: limitsMs[args[0] ?? ""] ?? options.deadlineMs,
      }),
  };
}
