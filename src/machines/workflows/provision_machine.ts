// The built-in workflow that makes a machine, boots it from installation media and waits for its console. Its
// tasks run in a sandbox like all others. They are text, not functions, since compiling would rewrite
// functions.
//
// Params: `uuid` (optional: the job's own uuid is then the machine's), `machine`, `media`, `boot`. The job
// records `uuid_was_free`, `machine_uuid`, `medium`, `medium_file` and `vnc` as it goes. Every task may run
// again after a crash: it finds what exists and does not create it twice.

import { BYTES_PER_GIB, BYTES_PER_MIB } from "../../domain/bytes.ts";
import type { WorkflowUuid } from "../../domain/id.ts";
import { HOUR_SECONDS, MINUTE_SECONDS } from "../../domain/instant.ts";
import { HALF_MADE, UNSETTLED } from "../../domain/machine/action.ts";
import { BHYVE_BOOTS } from "../../domain/machine/media.ts";
import { JOB_TAG, QUOTA_GIB_USUAL, ROOM_GIB } from "../../domain/policy.ts";

/**
 * Source of `settled(appear_seconds)`, part of create_machine and undo; the task has `uuid`. vmadm keeps
 * running when the agent dies, so a machine may be half created or about to appear. Returns the machine once
 * it has settled, or null if none appeared in that many seconds. `UNSETTLED` lists the states of a machine
 * being created.
 */
const SETTLED_MACHINE = `const UNSETTLED = ${JSON.stringify(UNSETTLED)};
  // On a slow pool a zone installs for a long time without visible change. Deleting it meanwhile would leave
  // behind what its vmadm has yet to create.
  const QUIET_SECONDS = 60;
  // Longer than all states together may be quiet.
  const SETTLE_SECONDS = 300;
  const settled = async (appear_seconds) => {
    let machine = await vmadm.get(uuid);
    let quiet = 0;
    for (let waited = 0; waited < SETTLE_SECONDS; waited += 1) {
      if (machine !== null && !UNSETTLED.includes(machine.state)) return machine;
      if (quiet >= (machine === null ? appear_seconds : QUIET_SECONDS)) return machine;
      const before = machine && machine.state;
      await sleep(1000);
      machine = await vmadm.get(uuid);
      quiet = (machine && machine.state) === before ? quiet + 1 : 0;
    }
    return machine;
  };`;

/**
 * Source of `isForeign(machine)`, part of create_machine and undo: whether another job or a person made it. The uuid was
 * free when the job began; a create that died may have left its machine without tags.
 */
const FOREIGN_MACHINE = `const HALF_MADE = ${JSON.stringify(HALF_MADE)};
  const isForeign = (machine) => {
    const owner = machine.tags && machine.tags.${JOB_TAG};
    return owner === undefined ? !HALF_MADE.includes(machine.state) : owner !== job.uuid;
  };`;

/**
 * Checks everything that can be checked before anything is created. It records that the uuid was free; only
 * then may undo delete.
 */
const PREFLIGHT = `async function preflight(job, cb) {
  const uuid = job.params.uuid || job.uuid;
  const { machine, media: medium, boot } = job.params;
  const refuse = (param, expected) => {
    const value = job.params[param];
    const found = value === undefined ? "missing" : JSON.stringify(value);
    return cb("Cannot provision a machine: params." + param + " is " + found + ", expected " + expected);
  };
  if (typeof machine !== "object" || machine === null) {
    return refuse("machine", "a description");
  }
  if (typeof medium !== "object" || medium === null) {
    return refuse("media", "an object that names the medium");
  }
  if (boot !== undefined && boot !== "cd" && boot !== "disk") {
    return refuse("boot", '"cd" or "disk"');
  }
  if (boot === "disk" && machine.brand === "bhyve") {
    return refuse("boot", '"cd": ${BHYVE_BOOTS}');
  }
  await info({ task: "preflight", message: "Checking that machine " + uuid + " can be made" });
  await vmadm.validate({ ...machine, uuid });
  if (machine.brand === "kvm" && (machine.disks || []).length > 2) {
    const message = "The medium comes behind more than two disks, where the BIOS may not read a CD";
    await info({ task: "preflight", message });
  }
  const existing = await vmadm.get(uuid);
  if (existing !== null && job.uuid_was_free !== true) {
    return cb("Cannot provision machine " + uuid + ": a machine with this uuid already exists");
  }
  job.machine_uuid = uuid;
  job.uuid_was_free = true;
  cb(null, { uuid });
}`;

/**
 * Finds and verifies the medium. An interrupted download resumes, so errors of the upstream are retried. A
 * refused medium or a wrong digest is not: ten seconds later nothing would be different.
 */
const FETCH_MEDIUM = `async function fetch_medium(job, cb) {
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
    return cb("Cannot boot a bhyve machine from " + medium.name + ": ${BHYVE_BOOTS}");
  }
  job.medium = medium;
  const mib = Math.ceil(medium.size / ${BYTES_PER_MIB});
  await info({
    task: "fetch_medium",
    message: "Verified " + medium.label + ": " + mib + " MiB, sha256 " + medium.sha256,
  });
  cb(null, medium);
}`;

/**
 * Source of `payload` and of `create()`, whose outcome is `created`, `taken` or `failed`: parts of create_machine, which
 * has `job` and `uuid`.
 */
const VMADM_CREATE = `const payload = { ...job.params.machine, uuid, autoboot: false };
  // Without a password, anyone who can reach the host's address could use the console. The agent chooses it,
  // and no job sees it.
  if (payload.vnc_password === undefined) payload.vnc_password = true;
  // Without UEFI firmware the screen of a bhyve machine stays empty, and so does its console.
  if (payload.brand === "bhyve" && payload.bootrom === undefined) payload.bootrom = "uefi";
  // The medium is copied into the zone, whose quota is ${QUOTA_GIB_USUAL.kvm} GiB for kvm and ${QUOTA_GIB_USUAL.bhyve} GiB for bhyve.
  const quota = Math.ceil(job.medium.size / ${BYTES_PER_GIB}) + ${ROOM_GIB};
  const usual = payload.brand === "bhyve" ? ${QUOTA_GIB_USUAL.bhyve} : ${QUOTA_GIB_USUAL.kvm};
  if (payload.quota === undefined && quota > usual) payload.quota = quota;

  const create = async () => {
    try {
      const { state } = await vmadm.create(payload);
      return { kind: "created", state };
    } catch (error) {
      return { kind: error.code === "already_exists" ? "taken" : "failed", error };
    }
  };`;

/**
 * Creates the machine. After a crash of the agent during this task a machine may exist already, or its create
 * may still be running. It is ours if preflight recorded that the uuid was free, and its tag names this job or it is half-made
 * without one. A half-made machine cannot be finished, only deleted. If vmadm died with the agent, there may be volumes
 * without a machine; the agent recorded their owner before the create.
 */
const CREATE_MACHINE = `async function create_machine(job, cb) {
  const uuid = job.machine_uuid;
  const APPEAR_SECONDS = 60;
  ${SETTLED_MACHINE}
  ${FOREIGN_MACHINE}
  const isMade = (machine) => {
    return machine !== null && !isForeign(machine) && machine.state === "stopped";
  };

  const found = await settled(0);
  if (found !== null && isForeign(found)) {
    return cb("Cannot create machine " + uuid + ": another machine took its uuid");
  }
  if (isMade(found)) {
    await info({ task: "create_machine", message: "Machine " + uuid + " already exists" });
    return cb(null, { uuid, state: found.state });
  }
  if (found !== null) {
    const message = "Deleting machine " + uuid + ", which was left " + found.state;
    await info({ task: "create_machine", message });
    await vmadm.delete(uuid);
  }

  ${VMADM_CREATE}
  await info({ task: "create_machine", message: "Creating " + payload.brand + " machine " + uuid });
  let outcome = await create();
  if (outcome.kind === "taken") {
    const message = "Waiting for machine " + uuid + ", whose creation an earlier attempt began";
    await info({ task: "create_machine", message });
    if (await settled(APPEAR_SECONDS) === null) {
      // Only its volumes are left.
      await vmadm.delete(uuid);
      outcome = await create();
      if (outcome.kind === "taken") {
        const reason = "this job did not create it; remove it with zfs destroy";
        return cb(outcome.error.message + ": " + reason);
      }
    }
  }
  if (outcome.kind === "created" && outcome.state !== "stopped") {
    return cb("Cannot use machine " + uuid + " after its creation: its state is " + outcome.state);
  }
  // What exists decides, since the answer may be lost and an earlier create may have come first.
  if (outcome.kind !== "created" && !isMade(await vmadm.get(uuid))) throw outcome.error;
  await info({ task: "create_machine", message: "Created machine " + uuid });
  cb(null, { uuid, state: "stopped" });
}`;

/**
 * Copies the medium into the root of the zone, where the hypervisor can open it.
 */
const PLACE_MEDIUM = `async function place_medium(job, cb) {
  const uuid = job.machine_uuid;
  // Answered from memory, unless the agent has restarted since: then the medium is verified again.
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

/**
 * Boots the machine from its medium. kvm takes the medium as a boot option; bhyve ignores those, so there it
 * is attached as a disk first. A boot begun by an agent that crashed continues without it.
 */
const BOOT_MACHINE = `async function boot_machine(job, cb) {
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
  if (machine === null) return cb("Cannot boot machine " + uuid + ": it no longer exists");
  if (machine.state === "running") {
    await info({ task: "boot_machine", message: "Machine " + uuid + " is already running" });
    return cb(null, { uuid, state: machine.state });
  }

  // An ISO may be booted as a disk, but a disk image never as a CD.
  const boot = file.toLowerCase().endsWith(".iso") ? job.params.boot : "disk";
  await info({ task: "boot_machine", message: "Booting machine " + uuid + " from " + file });
  // Whether it stays up shows while the next task waits for its console.
  const watch = 0;
  const start = async () => {
    if (machine.brand === "bhyve") return await vmadm.boot(uuid, { watch });
    if (boot === "disk") return await vmadm.boot(uuid, { disk: file, watch });
    return await vmadm.boot(uuid, { order: "cd", once: "d", cdrom: file, watch });
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
    // A boot begun by an agent that crashed may have come first.
    const now = error.code === "conflict" ? await settled() : null;
    if (now === null || now.state !== "running") throw error;
  }
  await info({ task: "boot_machine", message: "Booted machine " + uuid });
  cb(null, { uuid, state: "running" });
}`;

/**
 * Waits for the console. Its port changes with each start of the machine: the result says where it was at
 * that time, and GET /agent/v1/machines/:uuid asks again.
 */
const WAIT_FOR_VNC = `async function wait_for_vnc(job, cb) {
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

/**
 * Deletes the machine that the job made, with its disks and its copy of the medium. Runs after a
 * failure and after a cancel, and may run twice. Never touches a machine that was there before, or that
 * another job made.
 */
const UNDO = `async function undo(job, cb) {
  const uuid = job.machine_uuid;
  if (job.uuid_was_free !== true) return cb(null, { removed: null });
  const APPEAR_SECONDS = 20;
  ${SETTLED_MACHINE}
  ${FOREIGN_MACHINE}
  const entryOf = (task) => job.chain_results.find(({ name }) => name === task);
  const creationOf = () => {
    const fetched = entryOf("fetch_medium");
    if (fetched === undefined || fetched.error !== "") return "not_begun";
    const created = entryOf("create_machine");
    // A create that has no recorded end may have outlived the agent.
    return created === undefined || created.error === "interrupted" ? "unknown" : "ended";
  };
  const creation = creationOf();
  try {
    let machine = await vmadm.get(uuid);
    if (creation === "unknown" && (machine === null || UNSETTLED.includes(machine.state))) {
      const message = "Waiting for machine " + uuid + ", whose creation may still be running";
      await info({ task: "undo", message });
      machine = await settled(APPEAR_SECONDS);
    }
    if (machine === null) {
      // A create that died with the agent may have left volumes, which no machine shows.
      if (creation !== "not_begun") await vmadm.delete(uuid);
      await info({ task: "undo", message: "Machine " + uuid + " does not exist: nothing to remove" });
      return cb(null, { removed: null });
    }
    if (isForeign(machine)) {
      await info({ task: "undo", message: "Machine " + uuid + " was not created by this job: left alone" });
      return cb(null, { removed: null });
    }
    if (["running", "stopping", "ready"].includes(machine.state)) {
      await vmadm.stop(uuid, { force: true });
    }
    await vmadm.delete(uuid);
    if (await vmadm.get(uuid) !== null) {
      return cb("undo_failed: machine " + uuid + " is still there after it was deleted");
    }
    await info({
      task: "undo",
      message: "Removed machine " + uuid + " with its disks and the copy of its medium",
    });
    cb(null, { removed: uuid });
  } catch (error) {
    cb("undo_failed: machine " + uuid + " could not be removed: " + error.message);
  }
}`;

/** Deleting is retried, since a dataset may be busy for a moment. */
const undo = {
  name: "undo",
  body: UNDO,
  retry: 3,
  retry_delay: 5,
  timeout: 20 * MINUTE_SECONDS,
};

/**
 * The workflow and its constant uuid, which is the same in every agent; `definition` is a body of
 * POST /workflows.
 * @see document 2, Workflow
 * @see document 3, Endpoints
 */
export const PROVISION_MACHINE = {
  // A constant in the form of a uuid.
  uuid: "5e8f1d3a-0c47-4b62-9a7e-2f6b8c1d4e90" as WorkflowUuid,
  definition: {
    name: "provision-machine",
    chain: [
      { name: "preflight", body: PREFLIGHT, timeout: 5 * MINUTE_SECONDS },
      { name: "fetch_medium", body: FETCH_MEDIUM, timeout: 12 * HOUR_SECONDS },
      { name: "create_machine", body: CREATE_MACHINE, timeout: 30 * MINUTE_SECONDS },
      { name: "place_medium", body: PLACE_MEDIUM, timeout: 2 * HOUR_SECONDS },
      { name: "boot_machine", body: BOOT_MACHINE, timeout: 15 * MINUTE_SECONDS },
      { name: "wait_for_vnc", body: WAIT_FOR_VNC, timeout: 6 * MINUTE_SECONDS },
    ],
    onerror: [undo],
    oncancel: [undo],
    timeout: 16 * HOUR_SECONDS,
  },
};
