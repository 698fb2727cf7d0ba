// The built-in workflow that makes a machine, boots it from installation media and waits for its
// console. Its tasks are bodies like anyone's, run behind the same walls; they are texts here, and
// not functions, since a compiled program would hold their functions rewritten and shortened.
//
// Params: `uuid` (optional: the job's own uuid is then the machine's), `machine`, `media`, `boot`.
// The job records `uuid_was_free`, `machine_uuid`, `medium`, `medium_file` and `vnc` as it goes.
// Every task may be run again after a crash: what is there already is found, not made twice.

import type { WorkflowUuid } from "../../../domain/id.ts";
import { BOOT_MACHINE } from "./boot_machine.ts";
import { CREATE_MACHINE } from "./create_machine.ts";
import { FETCH_MEDIUM } from "./fetch_medium.ts";
import { PLACE_MEDIUM } from "./place_medium.ts";
import { PREFLIGHT } from "./preflight.ts";
import { UNDO } from "./undo.ts";
import { WAIT_FOR_VNC } from "./wait_for_vnc.ts";

const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3600;

/** Deleting is tried again: a dataset may be busy for a moment. */
const undo = {
  name: "undo",
  body: UNDO,
  retry: 3,
  retry_delay: 5,
  timeout: 20 * MINUTE_SECONDS,
};

/**
 * The workflow and its constant uuid, which is the same in every agent; `definition` is a body of
 * POST /workflows.
 * @see document 2, Workflow
 * @see document 3, Endpoints
 */
export const PROVISION_MACHINE = {
  // The text has the form of a uuid, which is what the brand stands for.
  uuid: "5e8f1d3a-0c47-4b62-9a7e-2f6b8c1d4e90" as WorkflowUuid,
  definition: {
    name: "provision-machine",
    chain: [
      { name: "preflight", body: PREFLIGHT, timeout: 5 * MINUTE_SECONDS },
      { name: "fetch_medium", body: FETCH_MEDIUM, timeout: 12 * HOUR_SECONDS },
      { name: "create_machine", body: CREATE_MACHINE, timeout: 30 * MINUTE_SECONDS },
      { name: "place_medium", body: PLACE_MEDIUM, timeout: 2 * HOUR_SECONDS },
      { name: "boot_machine", body: BOOT_MACHINE, timeout: 15 * MINUTE_SECONDS },
      { name: "wait_for_vnc", body: WAIT_FOR_VNC, timeout: 6 * MINUTE_SECONDS },
    ],
    onerror: [undo],
    oncancel: [undo],
    timeout: 16 * HOUR_SECONDS,
  },
};
