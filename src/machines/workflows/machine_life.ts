// The built-in workflows that act on a machine, one per action. A task that runs again after a crash
// finds what was done and does the rest, so there is nothing to undo: a failure leaves the machine as
// it is, and its error describes the state.
//
// Params: `uuid` of the machine, and the options of the action; see domain/machine/action.ts.

import type { WorkflowUuid } from "../../domain/id.ts";
import { MINUTE_SECONDS } from "../../domain/instant.ts";
import { BOOT_OPTIONS, DELETE_WORKFLOW } from "../../domain/machine/action.ts";

/**
 * Source of `settled()`, part of each task that has `uuid`: waits until the short states around a boot and a
 * halt are over. Returns the machine, after a minute at the latest, or null when there is none.
 */
const SETTLED_MACHINE = `const PASSING = ["ready", "shutting_down", "down"];
  const SETTLE_SECONDS = 60;
  const settled = async () => {
    let machine = await vmadm.get(uuid);
    for (let waited = 0; waited < SETTLE_SECONDS; waited += 1) {
      if (machine === null || !PASSING.includes(machine.state)) return machine;
      await sleep(1000);
      machine = await vmadm.get(uuid);
    }
    return machine;
  };`;

/**
 * Starts a machine. A running one is left alone, so the task may run again.
 */
const BOOT = `async function boot(job, cb) {
  const { uuid } = job.params;
  ${SETTLED_MACHINE}
  const machine = await settled();
  if (machine === null) return cb("Cannot boot machine " + uuid + ": it no longer exists");
  if (machine.state === "running") {
    await info({ task: "boot", message: "Machine " + uuid + " is already running" });
    return cb(null, { uuid, state: "running", changed: false });
  }
  if (machine.state !== "stopped") {
    return cb("Cannot boot machine " + uuid + ": its state is " + machine.state + ", expected stopped");
  }
  const words = {};
  for (const name of ${JSON.stringify(BOOT_OPTIONS)}) {
    if (job.params[name] !== undefined) words[name] = job.params[name];
  }
  await info({ task: "boot", message: "Booting machine " + uuid });
  // It fails if the machine does not stay up.
  await vmadm.boot(uuid, words);
  await info({ task: "boot", message: "Booted machine " + uuid });
  cb(null, { uuid, state: "running", changed: true });
}`;

/**
 * Stops a machine, through its guest or by force. A stopped one is left alone; a stop that was begun
 * elsewhere, such as by an agent that crashed, is waited for by vmadm.stop(), which also reports its
 * progress.
 */
const STOP = `async function stop(job, cb) {
  const { uuid, force, timeout } = job.params;
  ${SETTLED_MACHINE}
  const machine = await settled();
  if (machine === null) return cb("Cannot stop machine " + uuid + ": it no longer exists");
  if (machine.state === "stopped") {
    await info({ task: "stop", message: "Machine " + uuid + " is already stopped" });
    return cb(null, { uuid, state: "stopped", changed: false });
  }
  if (machine.state !== "running" && machine.state !== "stopping") {
    return cb("Cannot stop machine " + uuid + ": its state is " + machine.state + ", expected running");
  }
  const how = force === true ? " by force" : "";
  await info({ task: "stop", message: "Stopping machine " + uuid + how });
  const wait = force === true || timeout === undefined ? {} : { timeout };
  await vmadm.stop(uuid, { force: force === true, ...wait });
  const after = await settled();
  if (after !== null && after.state !== "stopped") {
    return cb("Cannot stop machine " + uuid + ": vmadm reported success, but its state is " + after.state);
  }
  await info({ task: "stop", message: "Stopped machine " + uuid });
  cb(null, { uuid, state: "stopped", changed: true });
}`;

/**
 * Takes media out of a stopped machine. They are detached before their files are removed: a machine whose
 * disk has no file does not start. A medium that is already gone is not an error.
 */
const EJECT = `async function eject(job, cb) {
  const { uuid, files = [] } = job.params;
  const machine = await vmadm.get(uuid);
  if (machine === null) return cb("Cannot eject from machine " + uuid + ": it no longer exists");
  if (machine.state !== "stopped") {
    return cb("Cannot eject from machine " + uuid + ": its state is " + machine.state + ", expected stopped");
  }
  const isAttached = (file) =>
    (machine.disks || []).some((disk) => disk.media === "cdrom" && disk.path === file);
  const attached = files.filter(isAttached);
  // One call may detach four.
  for (let at = 0; at < attached.length; at += 4) {
    const remove_disks = attached.slice(at, at + 4);
    await info({ task: "eject", message: "Detaching " + remove_disks.join(", ") });
    await vmadm.update(uuid, { remove_disks });
  }
  const removed = [];
  for (const file of files) {
    if (await media.remove(uuid, file)) removed.push(file);
  }
  const what = removed.length === 0 ? "nothing" : removed.join(", ");
  await info({ task: "eject", message: "Removed " + what + " from the zone of machine " + uuid });
  cb(null, { uuid, files, removed });
}`;

/**
 * Deletes a machine with its disks, its zone and the media in it. A missing machine is not an error, so the task
 * may run again after a crash or when a dataset was busy.
 */
const DELETE = `async function remove(job, cb) {
  const { uuid } = job.params;
  const machine = await vmadm.get(uuid);
  if (machine === null) {
    await info({ task: "delete", message: "Machine " + uuid + " does not exist: nothing to delete" });
    return cb(null, { uuid, changed: false });
  }
  if (["running", "stopping", "ready"].includes(machine.state)) {
    await info({ task: "delete", message: "Stopping machine " + uuid + " by force" });
    await vmadm.stop(uuid, { force: true });
  }
  await info({ task: "delete", message: "Deleting machine " + uuid });
  await vmadm.delete(uuid);
  if (await vmadm.get(uuid) !== null) {
    return cb("Cannot delete machine " + uuid + ": vmadm reported success, but it still exists");
  }
  await info({ task: "delete", message: "Deleted machine " + uuid + " with its disks and its media" });
  cb(null, { uuid, changed: true });
}`;

const boot = { name: "boot", body: BOOT, timeout: 15 * MINUTE_SECONDS };
/** Longer than the deadline of vmadm.stop(). */
const stop = { name: "stop", body: STOP, timeout: 30 * MINUTE_SECONDS };
const eject = { name: "eject", body: EJECT, timeout: 10 * MINUTE_SECONDS };
const remove = {
  name: "delete",
  body: DELETE,
  retry: 3,
  retry_delay: 5,
  timeout: 20 * MINUTE_SECONDS,
};

function workflow<Task>(uuid: string, name: string, chain: readonly Task[]) {
  // A constant in the form of a uuid.
  return { uuid: uuid as WorkflowUuid, definition: { name, chain: [...chain] } };
}

/**
 * A reboot is a stop and a boot, each with its record. After a crash of the agent, nobody could tell whether
 * a `vmadm reboot` had happened.
 * @see document 3, States and transitions
 */
export const MACHINE_LIFE = {
  boot: workflow("0f0172b8-cedc-4e45-9f94-d8e73ac8edef", "machine-boot", [boot]),
  stop: workflow("a4722fe0-43b0-45ef-9872-b63b955a5474", "machine-stop", [stop]),
  reboot: workflow("ba97d3f9-9b55-4d76-acb1-619ab237456a", "machine-reboot", [stop, boot]),
  eject: workflow("5ea5052d-40da-4330-a76c-4b5538e355c2", "machine-eject", [eject]),
  delete: workflow(DELETE_WORKFLOW, "machine-delete", [remove]),
} as const;

/** The uuids of those workflows, the same in every agent. */
export const ACTION_WORKFLOWS = {
  boot: MACHINE_LIFE.boot.uuid,
  stop: MACHINE_LIFE.stop.uuid,
  reboot: MACHINE_LIFE.reboot.uuid,
  eject: MACHINE_LIFE.eject.uuid,
  delete: MACHINE_LIFE.delete.uuid,
} as const;
