// Finds a medium and has it verified; or reads one again that is known. A download that was cut goes
// on where it ended, so it is tried again when the other side may be to blame, and only then.

/** Source of the task. */
export const FETCH = `async function fetch(job, cb) {
  const TRIES = 3;
  const PAUSE_SECONDS = 10;
  const { media: wanted } = job.params;
  if (typeof wanted !== "object" || wanted === null) {
    return cb("Cannot fetch a medium: params.media must name it");
  }
  // What is only kept may be of any format; what a machine boots is looked at when it is placed.
  const request = "known" in wanted ? wanted : { ...wanted, any_format: true };
  let medium;
  for (let tries = 1; medium === undefined; tries += 1) {
    try {
      medium = await media.find(request);
    } catch (error) {
      if (tries >= TRIES || !["upstream", "timeout"].includes(error.code)) throw error;
      const message = error.message + "; trying again in " + PAUSE_SECONDS + " seconds";
      await info({ task: "fetch", message });
      await sleep(PAUSE_SECONDS * 1000);
    }
  }
  const mib = Math.ceil(medium.size / 1048576);
  await info({
    task: "fetch",
    message: "Verified " + medium.label + ": " + mib + " MiB, sha256 " + medium.sha256,
  });
  cb(null, medium);
}`;
