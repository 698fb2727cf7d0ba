// Finds the medium and has it verified. A download that was cut goes on where it ended, so it is
// tried again when the other side may be to blame, and only then: a medium that is refused or does
// not have its digest will not be better in ten seconds.

/** Source of the task. */
export const FETCH_MEDIUM = `async function fetch_medium(job, cb) {
  const TRIES = 3;
  const PAUSE_SECONDS = 10;
  await info({ task: "fetch_medium", message: "Finding and verifying the installation medium" });
  let medium;
  for (let tries = 1; medium === undefined; tries += 1) {
    try {
      medium = await media.find(job.params.media);
    } catch (error) {
      if (tries >= TRIES || !["upstream", "timeout"].includes(error.code)) throw error;
      const message = error.message + "; trying again in " + PAUSE_SECONDS + " seconds";
      await info({ task: "fetch_medium", message });
      await sleep(PAUSE_SECONDS * 1000);
    }
  }
  if (job.params.machine.brand === "bhyve" && !medium.name.toLowerCase().endsWith(".iso")) {
    return cb("Cannot boot a bhyve machine from " + medium.name + ": expected an ISO image");
  }
  job.medium = medium;
  const mib = Math.ceil(medium.size / 1048576);
  await info({
    task: "fetch_medium",
    message: "Verified " + medium.label + ": " + mib + " MiB, sha256 " + medium.sha256,
  });
  cb(null, medium);
}`;
