// What `zonewright demo` shows besides the first machine: a few more machines, jobs of every kind and a
// library, created by requests that any caller can send. One job has failed, and its error says what to do;
// one waits to be resumed.

import type { JsonObject } from "../domain/json.ts";
import { AgentError } from "../domain/error.ts";
import { readObject, readObjects, textIn } from "./client/api_call.ts";

/** A machine of the demo, with an address of the documentation network. */
function machine(alias: string, brand: "kvm" | "bhyve", ip: string, sizes: JsonObject): JsonObject {
  const { ram, vcpus, size } = sizes;
  return {
    brand,
    alias,
    vcpus: vcpus ?? 1,
    autoboot: false,
    ram: ram ?? null,
    resolvers: ["192.0.2.53"],
    disks: [{ boot: true, model: "virtio", size: size ?? null }],
    nics: [{
      nic_tag: "external",
      model: "virtio",
      ip,
      netmask: "255.255.255.0",
      gateway: "192.0.2.1",
      primary: 1,
    }],
  };
}

const DATABASE = machine("database", "kvm", "192.0.2.21", { ram: 4096, vcpus: 2, size: 40_960 });
const WEB = machine("web-1", "bhyve", "192.0.2.22", { ram: 2048, vcpus: 2, size: 20_480 });
const ARTIFACT: JsonObject = { distro: "zonewright-sample", release: "latest", format: "iso" };
const UPLOADED = "zonewright-sample.iso";
/** Seconds for a machine of the demo to start, or for a job to end. */
const SETTLED_SECONDS = 60;

/** Fails while the machine runs; once it is stopped, a retry from `resize` succeeds. */
const RESIZE: JsonObject = {
  name: "resize-memory",
  chain: [{
    name: "look",
    body: `async function look(job, cb) {
  const machine = await vmadm.get(job.params.uuid);
  if (!machine) return cb('There is no machine ' + job.params.uuid);
  log.info('found', { alias: machine.alias, state: machine.state, ram: machine.ram });
  cb(null, { alias: machine.alias, ram: machine.ram });
}`,
  }, {
    name: "resize",
    retry: 1,
    body: `async function resize(job, cb) {
  const { uuid, ram } = job.params;
  const { alias, state } = await vmadm.get(uuid);
  if (state !== 'stopped') {
    return cb(alias + ' is ' + state + ': stop it on its page, then retry this job from here');
  }
  await vmadm.update(uuid, { ram });
  cb(null, { ram });
}`,
  }, {
    name: "boot",
    body: `async (job, cb) => {
  await vmadm.boot(job.params.uuid, {});
  cb(null, 'booted');
}`,
  }],
};
/** Waits to be resumed. */
const MAINTENANCE: JsonObject = {
  name: "announce-maintenance",
  chain: [{
    name: "prepare",
    body: `async (job, cb) => {
  const machines = await vmadm.list();
  log.info('machines of this host', { count: machines.length });
  cb(null, machines.map(({ alias }) => alias));
}`,
  }, {
    name: "approval",
    body: `function approval(job, cb) {
  log.info('waiting for approval', { by: job.params.approver });
  cb('wait');
}`,
  }, {
    name: "announce",
    body: "(job, cb) => { log.info('announced', { window: job.params.window }); cb(); }",
  }],
};
const INVENTORY: JsonObject = {
  name: "inventory",
  chain: [{
    name: "count",
    body: `async (job, cb) => {
  const states = {};
  for (const { state } of await vmadm.list()) states[state] = (states[state] || 0) + 1;
  cb(null, states);
}`,
  }],
};

/** An agent, and the signal that ends requests to it. */
interface Asked {
  readonly url: string;
  readonly signal: AbortSignal;
}

/**
 * Creates the samples. Resolves once the machines run and each job has ended, failed or waits, as intended.
 * @param url of the agent
 * @throws {AgentError} `internal` with what the agent refused
 */
export async function makeSamples(url: string, signal: AbortSignal): Promise<void> {
  const agent: Asked = { url, signal };
  const media = { artifact: ARTIFACT };
  const made = await Promise.all(
    [DATABASE, WEB].map((one) => post(agent, "/agent/v1/machines", { machine: one, media })),
  );
  await upload(agent);
  await Promise.all(made.map((one) => settled(agent, textIn(one, "job_uuid"))));
  const uuid = textIn(made[0] ?? {}, "uuid") ?? "";
  const jobs = [
    await job(agent, INVENTORY, { target: "/inventory" }),
    await job(agent, RESIZE, { target: `/machines/${uuid}`, uuid, ram: 8192 }),
    await job(agent, MAINTENANCE, {
      target: "/maintenance",
      approver: "operations",
      window: "Sunday 02:00",
    }),
  ];
  await Promise.all(jobs.map((one) => settled(agent, one)));
}

async function job(agent: Asked, workflow: JsonObject, params: JsonObject): Promise<string> {
  const { uuid } = await post(agent, "/workflows", workflow);
  return textIn(await post(agent, "/jobs", { workflow: uuid ?? null, ...params }), "uuid") ?? "";
}

/** Waits until a job has ended or is waiting to be resumed. */
async function settled(agent: Asked, uuid: string | undefined): Promise<void> {
  await answered(agent, `/jobs/${uuid}/wait?timeout=${SETTLED_SECONDS}`, {});
}

/** Uploads the installer from the sample index, as an operator would upload one of their own. */
async function upload(agent: Asked): Promise<void> {
  const query = "distro=zonewright-sample&release=latest&format=iso&limit=1";
  const page = readObject(await answered(agent, `/agent/v1/images?${query}`, {}), "the images");
  const [image] = readObjects(page.images, "the images");
  const file = await fetch(textIn(image ?? {}, "url") ?? "", { signal: agent.signal });
  await answered(agent, `/agent/v1/media/library/${UPLOADED}`, {
    method: "PUT",
    headers: { "content-type": "application/octet-stream" },
    body: await file.arrayBuffer(),
  });
}

async function post(agent: Asked, path: string, body: JsonObject): Promise<JsonObject> {
  const answer = await answered(agent, path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return readObject(answer, path);
}

async function answered(
  { url, signal }: Asked,
  path: string,
  request: RequestInit,
): Promise<unknown> {
  const response = await fetch(url + path, { ...request, signal });
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  throw new AgentError("internal", `Cannot make the samples: ${path} answered ${text}`);
}
