// Checks everything that can be checked while nothing is there yet. That the uuid was free is
// recorded with the result of this task, before anything is made: only then may undo delete.

/** Source of the task. */
export const PREFLIGHT = `async function preflight(job, cb) {
  const uuid = job.params.uuid || job.uuid;
  const { machine, media: medium, boot } = job.params;
  if (typeof machine !== "object" || machine === null) {
    return cb("Cannot provision a machine: params.machine must be its description");
  }
  if (typeof medium !== "object" || medium === null) {
    return cb("Cannot provision a machine: params.media must name its medium");
  }
  if (boot !== undefined && boot !== "cd" && boot !== "disk") {
    return cb("Cannot provision a machine: params.boot must be cd or disk");
  }
  if (boot === "disk" && machine.brand === "bhyve") {
    return cb("Cannot provision a machine: a bhyve machine boots no image file, only a cd");
  }
  await info({ task: "preflight", message: "Checking that machine " + uuid + " can be made" });
  await vmadm.validate({ ...machine, uuid });
  const existing = await vmadm.get(uuid);
  if (existing !== null && job.uuid_was_free !== true) {
    return cb("Cannot provision machine " + uuid + ": a machine with this uuid is there already");
  }
  job.machine_uuid = uuid;
  job.uuid_was_free = true;
  cb(null, { uuid });
}`;
