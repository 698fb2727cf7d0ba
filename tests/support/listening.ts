// How servers of tests listen: nowhere yet, in the runtime's own way and without a token.

import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { servesConnections } from "../../src/http/listen/runtime_connection.ts";
import type { ListenOptions } from "../../src/http/server.ts";
import { silentLog } from "../../src/metrics/log.ts";

export const LISTENING: ListenOptions = {
  tcp: null,
  socketPath: null,
  socketRights: { mode: 0o600 },
  tokenRequired: false,
  relayed: !servesConnections(),
  connections: DEFAULT_LIMITS,
  log: silentLog,
};

/** How long they wait for answers that are under way, as an agent does. */
export const GRACE_MS = 5_000;
