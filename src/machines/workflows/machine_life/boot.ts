// Starts a machine. One that runs is left as it is, so that the task may be run again.

import { SETTLED_MACHINE } from "./settled_machine.ts";

/** Source of the task. */
export const BOOT = `async function boot(job, cb) {
  const { uuid } = job.params;
  ${SETTLED_MACHINE}
  const machine = await settled();
  if (machine === null) return cb("Cannot boot machine " + uuid + ": it is gone");
  if (machine.state === "running") {
    await info({ task: "boot", message: "Machine " + uuid + " is running already" });
    return cb(null, { uuid, state: "running", changed: false });
  }
  if (machine.state !== "stopped") {
    return cb("Cannot boot machine " + uuid + ": its state is " + machine.state + ", expected stopped");
  }
  const words = {};
  for (const name of ["order", "once", "cdrom", "disk"]) {
    if (job.params[name] !== undefined) words[name] = job.params[name];
  }
  await info({ task: "boot", message: "Booting machine " + uuid });
  await vmadm.boot(uuid, words);
  await info({ task: "boot", message: "Booted machine " + uuid });
  cb(null, { uuid, state: "running", changed: true });
}`;
