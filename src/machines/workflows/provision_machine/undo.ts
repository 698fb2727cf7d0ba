// Leaves nothing behind: deletes the machine that the job made, and with it its disks and the copy
// of the medium. Runs after a failure and after a cancel, and may run twice. Never touches a machine
// that was there before, or that another job made.

import { SETTLED_MACHINE } from "./settled_machine.ts";

/** Source of the task. */
export const UNDO = `async function undo(job, cb) {
  const uuid = job.machine_uuid;
  if (job.uuid_was_free !== true) return cb(null, { removed: null });
  const APPEAR_SECONDS = 20;
  ${SETTLED_MACHINE}
  // A create that was begun and has no recorded end may have outlived the agent.
  const entryOf = (task) => job.chain_results.find(({ name }) => name === task);
  const fetched = entryOf("fetch_medium");
  const created = entryOf("create_machine");
  const under_way = fetched !== undefined && fetched.error === "" &&
    (created === undefined || created.error === "interrupted");
  try {
    let machine = await vmadm.get(uuid);
    if (under_way && (machine === null || UNSETTLED.includes(machine.state))) {
      const message = "Waiting for machine " + uuid + ", which may be in the making";
      await info({ task: "undo", message });
      machine = await settled(APPEAR_SECONDS);
    }
    if (machine === null) {
      // A create that died with the agent may have left volumes, which no machine shows.
      if (fetched !== undefined && fetched.error === "") await vmadm.delete(uuid);
      await info({ task: "undo", message: "Machine " + uuid + " is not there: nothing to remove" });
      return cb(null, { removed: null });
    }
    const half_made = [...UNSETTLED, "failed"];
    const owner = machine.tags && machine.tags.zonewright_job;
    const foreign = owner === undefined ? !half_made.includes(machine.state) : owner !== job.uuid;
    if (foreign) {
      await info({ task: "undo", message: "Machine " + uuid + " is not of this job: left alone" });
      return cb(null, { removed: null });
    }
    if (["running", "stopping", "ready"].includes(machine.state)) {
      await vmadm.stop(uuid, { force: true });
    }
    await vmadm.delete(uuid);
    if (await vmadm.get(uuid) !== null) {
      return cb("undo_failed: machine " + uuid + " is still there after it was deleted");
    }
    await info({
      task: "undo",
      message: "Removed machine " + uuid + " with its disks and the copy of its medium",
    });
    cb(null, { removed: uuid });
  } catch (error) {
    cb("undo_failed: machine " + uuid + " could not be removed: " + error.message);
  }
}`;
