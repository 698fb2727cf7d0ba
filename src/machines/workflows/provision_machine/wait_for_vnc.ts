// Waits for the console. The port is another one after each start of the machine, so the result
// tells where it was, and GET /agent/v1/machines/:uuid asks again.

/** Source of the task. */
export const WAIT_FOR_VNC = `async function wait_for_vnc(job, cb) {
  const uuid = job.machine_uuid;
  await info({ task: "wait_for_vnc", message: "Waiting for the console of machine " + uuid });
  const address = await vnc.wait(uuid, { timeout: job.params.vnc_timeout || 300 });
  job.vnc = address;
  await info({
    task: "wait_for_vnc",
    message: "The console of machine " + uuid + " is at " + address.host + " port " + address.port,
  });
  cb(null, { uuid, vnc: address, console: "/agent/v1/machines/" + uuid + "/console" });
}`;
