// Makes the machine. When the agent died while this task ran, a machine may be there already, or its
// create may still be going on: it is ours, since preflight recorded that the uuid was free and the
// tag names this job. A half-made one cannot be finished, only deleted. When vmadm died with the
// agent there may be volumes and no machine; the agent recorded whose they are before the create.

import { SETTLED_MACHINE } from "./settled_machine.ts";

/** Source of the task. */
export const CREATE_MACHINE = `async function create_machine(job, cb) {
  const uuid = job.machine_uuid;
  const APPEAR_SECONDS = 60;
  ${SETTLED_MACHINE}
  const isForeign = (machine) => {
    const owner = machine.tags && machine.tags.zonewright_job;
    return owner === undefined ? !UNSETTLED.includes(machine.state) : owner !== job.uuid;
  };
  const isMade = (machine) => {
    return machine !== null && !isForeign(machine) && machine.state === "stopped";
  };
  const isTaken = ({ code, message }) => code === "conflict" && message.includes("already exists");

  const found = await settled(0);
  if (found !== null && isForeign(found)) {
    return cb("Cannot create machine " + uuid + ": another machine took its uuid");
  }
  if (isMade(found)) {
    await info({ task: "create_machine", message: "Machine " + uuid + " is there already" });
    return cb(null, { uuid, state: found.state });
  }
  if (found !== null) {
    const message = "Deleting machine " + uuid + ", which was left " + found.state;
    await info({ task: "create_machine", message });
    await vmadm.delete(uuid);
  }

  const payload = { ...job.params.machine, uuid, autoboot: false };
  // Anyone who reaches the host's address could use a console without one. The agent chooses it, and
  // no job knows it.
  if (payload.vnc_password === undefined) payload.vnc_password = true;
  // Without UEFI firmware the screen of a bhyve machine stays empty, and so does its console.
  if (payload.brand === "bhyve" && payload.bootrom === undefined) payload.bootrom = "uefi";
  // The medium is copied into the zone, whose quota is 10 GiB for kvm and 1 GiB for bhyve.
  const quota = Math.ceil(job.medium.size / 1073741824) + 1;
  const usual = payload.brand === "bhyve" ? 1 : 10;
  if (payload.quota === undefined && quota > usual) payload.quota = quota;

  await info({ task: "create_machine", message: "Creating " + payload.brand + " machine " + uuid });
  let state;
  try {
    ({ state } = await vmadm.create(payload));
  } catch (error) {
    // What counts is what is there: an answer may be lost, and a create of a run before this one
    // may have come first.
    const begun = isTaken(error);
    if (begun) {
      const message = "Waiting for machine " + uuid + ", which was begun before";
      await info({ task: "create_machine", message });
    }
    let made = begun ? await settled(APPEAR_SECONDS) : await vmadm.get(uuid);
    if (begun && made === null) {
      await vmadm.delete(uuid);
      try {
        await vmadm.create(payload);
      } catch (again) {
        if (!isTaken(again)) throw again;
        return cb(again.message + ": no create of this job made it; remove it with zfs destroy");
      }
      made = await vmadm.get(uuid);
    }
    if (!isMade(made)) throw error;
    state = made.state;
  }
  if (state !== "stopped") {
    return cb("Cannot use machine " + uuid + " after its creation: its state is " + state);
  }
  await info({ task: "create_machine", message: "Created machine " + uuid });
  cb(null, { uuid, state });
}`;
