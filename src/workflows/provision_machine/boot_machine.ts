// Boots the machine from its medium. A kvm machine is told at boot; bhyve ignores those words, so
// the medium becomes a disk of the machine before.

/** Source of the task. */
export const BOOT_MACHINE = `async function boot_machine(job, cb) {
  const uuid = job.machine_uuid;
  const file = job.medium_file;
  const machine = await vmadm.get(uuid);
  if (machine === null) return cb("Cannot boot machine " + uuid + ": it is gone");
  if (machine.state === "running") {
    await info({ task: "boot_machine", message: "Machine " + uuid + " is running already" });
    return cb(null, { uuid, state: machine.state });
  }

  // An ISO may be booted as a disk, the image of a disk never as a CD.
  const boot = file.toLowerCase().endsWith(".iso") ? job.params.boot : "disk";
  await info({ task: "boot_machine", message: "Booting machine " + uuid + " from " + file });
  if (machine.brand === "bhyve") {
    const attached = (machine.disks || []).some((disk) => disk.path === file);
    if (!attached) {
      await vmadm.update(uuid, { add_disks: [{ path: file, media: "cdrom", model: "ahci" }] });
    }
    await vmadm.boot(uuid, {});
  } else if (boot === "disk") {
    await vmadm.boot(uuid, { disk: file });
  } else {
    await vmadm.boot(uuid, { order: "cd", once: "d", cdrom: file });
  }
  await info({ task: "boot_machine", message: "Booted machine " + uuid });
  cb(null, { uuid, state: "running" });
}`;
