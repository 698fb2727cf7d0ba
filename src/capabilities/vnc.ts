// Waits for a machine's console: vmadm reports a port, and an RFB server answers there.

import { object } from "../domain/description/object.ts";
import { parse, positive } from "../domain/description/value.ts";
import type { JsonValue } from "../domain/json.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import { waitForVnc } from "../host/vmadm/vnc.ts";
import type { CapabilitiesOf } from "./capability.ts";
import { machineUuid } from "./vmadm.ts";

const TIMEOUT_SECONDS = 120;
const TIMEOUT_SECONDS_MAX = 600;
/** The wait ends by its own timeout; this comes later. */
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
  const { timeout } = parse(waitOptions, options ?? {}, "options", "options");
  return timeout ?? TIMEOUT_SECONDS;
}

const waitOptions = object({ timeout: positive(TIMEOUT_SECONDS_MAX, "seconds") });
