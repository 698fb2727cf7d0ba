// The built-in workflows of a machine's later life, by the action that each of them is. A task that is
// run again after a crash finds what was done and does the rest, so there is nothing to undo: what
// fails leaves the machine as it is, and the error tells how that is.
//
// Params: `uuid` of the machine, and the options of the action; see domain/machine_action.ts.

import type { WorkflowUuid } from "../../../domain/id.ts";
import { BOOT } from "./boot.ts";
import { DELETE } from "./delete.ts";
import { EJECT } from "./eject.ts";
import { STOP } from "./stop.ts";

const MINUTE_SECONDS = 60;

const boot = { name: "boot", body: BOOT, timeout: 15 * MINUTE_SECONDS };
const stop = { name: "stop", body: STOP, timeout: 15 * MINUTE_SECONDS };
const eject = { name: "eject", body: EJECT, timeout: 10 * MINUTE_SECONDS };
const remove = {
  name: "delete",
  body: DELETE,
  retry: 3,
  retry_delay: 5,
  timeout: 20 * MINUTE_SECONDS,
};

function workflow<Task>(uuid: string, name: string, chain: readonly Task[]) {
  // The text has the form of a uuid, which is what the brand stands for.
  return { uuid: uuid as WorkflowUuid, definition: { name, chain: [...chain] } };
}

/**
 * A reboot is a stop and a boot, each with its record: of one that vmadm made nobody could tell, after
 * a crash of the agent, whether it had happened.
 * @see document 3, States and transitions
 */
export const MACHINE_LIFE = {
  boot: workflow("0f0172b8-cedc-4e45-9f94-d8e73ac8edef", "machine-boot", [boot]),
  stop: workflow("a4722fe0-43b0-45ef-9872-b63b955a5474", "machine-stop", [stop]),
  reboot: workflow("ba97d3f9-9b55-4d76-acb1-619ab237456a", "machine-reboot", [stop, boot]),
  eject: workflow("5ea5052d-40da-4330-a76c-4b5538e355c2", "machine-eject", [eject]),
  delete: workflow("6dbf7bd5-d1b8-4a0c-9ea1-f7a6ffec10b4", "machine-delete", [remove]),
} as const;

/** The uuids of those workflows, which are the same in every agent. */
export const ACTION_WORKFLOWS = {
  boot: MACHINE_LIFE.boot.uuid,
  stop: MACHINE_LIFE.stop.uuid,
  reboot: MACHINE_LIFE.reboot.uuid,
  eject: MACHINE_LIFE.eject.uuid,
  delete: MACHINE_LIFE.delete.uuid,
} as const;
