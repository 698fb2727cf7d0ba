// Deletes a machine with its disks, its zone and the media in it. One that is gone is no failure, so
// that the task may be run again: a dataset may be busy for a moment, or an agent die in between.

/** Source of the task. */
export const DELETE = `async function remove(job, cb) {
  const { uuid } = job.params;
  const machine = await vmadm.get(uuid);
  if (machine === null) {
    await info({ task: "delete", message: "Machine " + uuid + " is not there: nothing to delete" });
    return cb(null, { uuid, changed: false });
  }
  if (["running", "stopping", "ready"].includes(machine.state)) {
    await info({ task: "delete", message: "Stopping machine " + uuid + " by force" });
    await vmadm.stop(uuid, { force: true });
  }
  await info({ task: "delete", message: "Deleting machine " + uuid });
  await vmadm.delete(uuid);
  if (await vmadm.get(uuid) !== null) {
    return cb("Cannot delete machine " + uuid + ": vmadm says that it did, and it is still there");
  }
  await info({ task: "delete", message: "Deleted machine " + uuid + " with its disks and its media" });
  cb(null, { uuid, changed: true });
}`;
