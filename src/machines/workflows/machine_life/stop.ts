// Stops a machine, by its guest or by force. One that is stopped is left as it is; a stop that an agent
// began before it died goes on without it, and is waited for.

import { SETTLED_MACHINE } from "./settled_machine.ts";

/** Source of the task. */
export const STOP = `async function stop(job, cb) {
  const { uuid, force, timeout } = job.params;
  ${SETTLED_MACHINE}
  const machine = await settled();
  if (machine === null) return cb("Cannot stop machine " + uuid + ": it is gone");
  if (machine.state === "stopped") {
    await info({ task: "stop", message: "Machine " + uuid + " is stopped already" });
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
    return cb("Cannot stop machine " + uuid + ": vmadm says that it did, and its state is " + after.state);
  }
  await info({ task: "stop", message: "Stopped machine " + uuid });
  cb(null, { uuid, state: "stopped", changed: true });
}`;
