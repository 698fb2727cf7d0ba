// The record of who changed what: one line for every call that may change something, refused or not. It says
// who called what and how it ended, never what was sent. For busy callers the log only counts the lines; the
// trail has each of them.

import { METHOD_CHARS_MAX, PATH_CHARS_MAX } from "./request_id.ts";
import type { MiddlewareHandler } from "hono";
import type { Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import { needsAdmin } from "./access.ts";
import { type AccessLines, callKind } from "./access_lines.ts";
import type { HttpEnv } from "../context.ts";
import type { AuditTrail } from "./audit_file.ts";
import { callerText, peerText } from "./caller.ts";

const JOB_LOCATION = /^\/jobs\/([0-9a-f-]{36})$/;

interface AuditDependencies {
  readonly log: Log;
  readonly lines: AccessLines;
  readonly now: Now;
  readonly trail?: AuditTrail | undefined;
}

/** Records calls. It comes first, so that it records the final status. */
export function audited({ log, lines, now, trail }: AuditDependencies): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    await next();
    const { method, path } = c.req;
    if (!needsAdmin(method, path, c.req.raw.headers)) return;
    const job_uuid = JOB_LOCATION.exec(c.res.headers.get("location") ?? "")?.[1];
    const caller = { who: callerText(c.get("caller")), peer: peerText(c.env?.remote) };
    const entry = {
      request_id: c.get("request_id"),
      ...caller,
      method: method.slice(0, METHOD_CHARS_MAX),
      path: path.slice(0, PATH_CHARS_MAX),
      status: c.res.status,
      ...(job_uuid === undefined ? {} : { job_uuid }),
    };
    if (lines.audited(caller, callKind(c))) log.info("call audited", { logger: "audit", ...entry });
    await trail?.append({ ts: now(), ...entry });
  };
}
