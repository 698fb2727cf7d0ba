// Takes media out of a stopped machine: first detached, since a machine whose disk has no file does not
// start, then removed from the root of its zone. What is out already is no failure.

/** Source of the task. */
export const EJECT = `async function eject(job, cb) {
  const { uuid, files = [] } = job.params;
  const machine = await vmadm.get(uuid);
  if (machine === null) return cb("Cannot eject from machine " + uuid + ": it is gone");
  if (machine.state !== "stopped") {
    return cb("Cannot eject from machine " + uuid + ": its state is " + machine.state + ", expected stopped");
  }
  const isAttached = (file) =>
    (machine.disks || []).some((disk) => disk.media === "cdrom" && disk.path === file);
  const attached = files.filter(isAttached);
  // As many as one call may detach.
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
