// Waiting for a machine's console: vmadm names a port, and something behind it speaks RFB.

import { invalidArgument } from "../domain/error.ts";
import { isJsonObject, type JsonValue } from "../domain/json.ts";
import type { Vmadm } from "../host/vmadm.ts";
import { waitForVnc } from "../host/vnc.ts";
import type { CapabilitiesOf } from "./capability.ts";
import { machineUuid } from "./vmadm.ts";

const TIMEOUT_SECONDS = 120;
const TIMEOUT_SECONDS_MAX = 600;
/** The wait ends by its own timeout; this is behind it. */
const DEADLINE_MS = (TIMEOUT_SECONDS_MAX + 30) * 1000;

/** The capability `vnc.wait(uuid, {timeout})`. */
export function vncCapabilities(vmadm: Vmadm): CapabilitiesOf<"vnc"> {
  return {
    "vnc.wait": {
      deadlineMs: DEADLINE_MS,
      async perform({ signal }, [uuid, options]) {
        const deadlineMs = timeoutSeconds(options) * 1000;
        return { ...await waitForVnc(vmadm, machineUuid(uuid), { deadlineMs, signal }) };
      },
    },
  };
}

function timeoutSeconds(options: JsonValue | undefined): number {
  if (options === undefined || options === null) return TIMEOUT_SECONDS;
  const timeout = isJsonObject(options) ? options.timeout ?? TIMEOUT_SECONDS : undefined;
  if (typeof timeout === "number" && timeout > 0 && timeout <= TIMEOUT_SECONDS_MAX) return timeout;
  throw invalidArgument(
    "timeout",
    `Cannot wait for the console: expected {timeout} in seconds, at most ${TIMEOUT_SECONDS_MAX}`,
  );
}
