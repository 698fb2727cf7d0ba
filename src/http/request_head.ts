// How large the head of a request may be. The runtime itself takes no more than a hundred fields and
// some hundred thousand bytes, which it answers with 431 and no body; these bounds are ours, narrower,
// and answered as every other refusal is, with the same status (RFC 6585, section 5).

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../domain/error.ts";
import type { HttpEnv, HttpLimits } from "./app_deps.ts";

/** Refuses a request whose header fields are too many or too long. */
export function headBounded(
  { headerFieldsMax, headerCharsMax }: Pick<HttpLimits, "headerFieldsMax" | "headerCharsMax">,
): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    let fields = 0;
    let chars = 0;
    for (const [name, value] of c.req.raw.headers) {
      fields += 1;
      chars += name.length + value.length;
    }
    if (fields > headerFieldsMax) throw refused(`it has over ${headerFieldsMax} header fields`);
    if (chars > headerCharsMax) throw refused(`its header is over ${headerCharsMax} characters`);
    await next();
  };
}

function refused(why: string): AgentError {
  return new AgentError("head_too_large", `Cannot accept the request: ${why}`);
}
