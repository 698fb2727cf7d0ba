// Copies the medium into the root of the zone, from where the hypervisor can open it.

/** Source of the task. */
export const PLACE_MEDIUM = `async function place_medium(job, cb) {
  const uuid = job.machine_uuid;
  // Answered from memory, unless the agent was restarted since: then the medium is verified again.
  const medium = await media.find(job.params.media);
  if (medium.sha256 !== job.medium.sha256) {
    return cb(
      "Cannot place " + medium.name + ": it was changed after it had been verified, its sha256 is " +
        medium.sha256 + ", expected " + job.medium.sha256,
    );
  }
  await info({
    task: "place_medium",
    message: "Copying " + medium.name + " into the zone of machine " + uuid,
  });
  const placed = await media.place(uuid, medium);
  job.medium_file = placed.file;
  await info({ task: "place_medium", message: "The machine sees the medium as " + placed.file });
  cb(null, placed);
}`;
