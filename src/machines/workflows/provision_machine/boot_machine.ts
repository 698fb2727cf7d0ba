// Boots the machine from its medium. A kvm machine is told at boot; bhyve ignores those words, so
// the medium becomes a disk of the machine before. A boot of an agent that died goes on without it.

/** Source of the task. */
export const BOOT_MACHINE = `async function boot_machine(job, cb) {
  const uuid = job.machine_uuid;
  const file = job.medium_file;
  const READY_SECONDS = 60;
  const settled = async () => {
    let machine = await vmadm.get(uuid);
    for (let waited = 0; waited < READY_SECONDS; waited += 1) {
      if (machine === null || machine.state !== "ready") return machine;
      await sleep(1000);
      machine = await vmadm.get(uuid);
    }
    return machine;
  };
  const machine = await settled();
  if (machine === null) return cb("Cannot boot machine " + uuid + ": it is gone");
  if (machine.state === "running") {
    await info({ task: "boot_machine", message: "Machine " + uuid + " is running already" });
    return cb(null, { uuid, state: machine.state });
  }

  // An ISO may be booted as a disk, the image of a disk never as a CD.
  const boot = file.toLowerCase().endsWith(".iso") ? job.params.boot : "disk";
  await info({ task: "boot_machine", message: "Booting machine " + uuid + " from " + file });
  const start = async () => {
    if (machine.brand === "bhyve") return await vmadm.boot(uuid, {});
    if (boot === "disk") return await vmadm.boot(uuid, { disk: file });
    return await vmadm.boot(uuid, { order: "cd", once: "d", cdrom: file });
  };
  if (machine.brand === "bhyve") {
    const attached = (machine.disks || []).some((disk) => disk.path === file);
    if (!attached) {
      await vmadm.update(uuid, { add_disks: [{ path: file, media: "cdrom", model: "ahci" }] });
    }
  }
  try {
    await start();
  } catch (error) {
    const overtaken = error.message.includes("Cannot start vm from state");
    const now = overtaken ? await settled() : null;
    if (now === null || now.state !== "running") throw error;
  }
  await info({ task: "boot_machine", message: "Booted machine " + uuid });
  cb(null, { uuid, state: "running" });
}`;
