// /agent/v1/hosts: the hosts of the store, and whether they accept work. A shared store has one for each agent, an
// SQLite store only this host. `GET /agent/v1/host` is different: what this agent reports about itself.

import { type Context, Hono } from "hono";
import {
  COUNT,
  FLAG,
  INSTANT,
  listOf,
  NULLABLE_TEXT,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import { object } from "../../domain/description/object.ts";
import { parse } from "../../domain/description/description.ts";
import { AgentError, unreachable } from "../../domain/error.ts";
import { HOST_STATES } from "../../domain/host.ts";
import { MS_PER_SECOND } from "../../domain/instant.ts";
import { type HostJobs, hostNamedBy, type ListedHost } from "../../store/host_store.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { readJson, smallBody } from "../request/body.ts";

/** A host of the store as it is sent. */
export const LISTED_HOST = whole("A host that has registered in the store.", {
  uuid: UUID,
  name: { ...TEXT, description: "Of the host; several hosts may have one name." },
  state: {
    ...wordOf(HOST_STATES),
    description:
      "`away`: its agent was not heard for a lease; `cordoned`: it claims nothing new; " +
      "`forgotten`: it was given up, and acts on nothing. A cordoned host that is away is `away`.",
  },
  this_host: { ...FLAG, description: "Whether it is the host of the agent that answers." },
  version: { ...TEXT, description: "Of its agent." },
  slots: { ...COUNT, minimum: 1, description: "Jobs that run at the same time." },
  running: {
    ...COUNT,
    description: "Jobs that its agent holds, with the `oncancel` chains of canceled ones.",
  },
  queued: { ...COUNT, description: "Jobs that wait for a slot of it, or for their time." },
  capabilities: { ...listOf(TEXT), description: "What its tasks may call." },
  brands: { ...listOf(TEXT), description: "Of the machines that it makes." },
  allow_workflow: {
    ...listOf(TEXT),
    description:
      "Workflows whose jobs its policy lets it run, each by its name, or by its name and the digest of its tasks; " +
      "all of them when there is none.",
  },
  allow_caller: { ...listOf(TEXT), description: "The same for the callers who ordered them." },
  address: { ...NULLABLE_TEXT, description: "Where other agents reach it; null when they do not." },
  generation: { ...COUNT, minimum: 1, description: "Number of starts of its agent." },
  seen_at: {
    ...INSTANT,
    description: "The last heartbeat of its agent, by the clock of the store.",
  },
  age_seconds: { ...COUNT, description: "Since then." },
  lease_seconds: {
    ...COUNT,
    description: "It counts as heard for so long after a heartbeat, and is not forgotten.",
  },
  cordoned: FLAG,
  forgotten: FLAG,
});
type HostOnWire = ShapeOf<typeof LISTED_HOST>;

/** The answer when a host is given up. */
export const HOST_FORGOTTEN = whole("A host that was given up.", {
  host: shapeRef("ListedHost", LISTED_HOST),
  failed_jobs: { ...COUNT, description: "Its unfinished jobs, which have failed as `host_lost`." },
});

/** The body of a request to cordon, admit or forget a host, which has no options. */
export const hostRequest = object({});

type HostsContext = Pick<ServedAgent, "store" | "limits" | "log" | "hostUuid">;

/** Lists and shows hosts, cordons, admits and forgets them. @see docs/scale.md, Hosts */
export function hostsRoutes(context: HostsContext): Hono<HttpEnv> {
  const { store: { hosts }, hostUuid } = context;
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/hosts", async (c) => {
    c.header("cache-control", "no-store");
    const [listed, jobs] = await Promise.all([hosts.list(), hosts.jobs()]);
    return c.json(listed.map((host) => hostOnWire(host, jobs.get(host.uuid), hostUuid)));
  });
  app.get("/agent/v1/hosts/:host", async (c) => {
    c.header("cache-control", "no-store");
    const host = await hostOf(c, context);
    return c.json(hostOnWire(host, (await hosts.jobs()).get(host.uuid), hostUuid));
  });
  app.post("/agent/v1/hosts/:host/cordon", (c) => admit(c, "cordon", context));
  app.post("/agent/v1/hosts/:host/uncordon", (c) => admit(c, "uncordon", context));
  // access.ts lets only administrators change anything.
  app.delete("/agent/v1/hosts/:host", (c) => forget(c, context));
  return app;
}

/** The host that the path names. @throws {AgentError} as hostNamedBy() */
function hostOf(c: Context<HttpEnv>, { store }: HostsContext): Promise<ListedHost> {
  return hostNamedBy(c.req.param("host") ?? "", store);
}

async function readNoOptions(c: Context<HttpEnv>, { limits }: HostsContext): Promise<void> {
  parse(hostRequest, await readJson(c, smallBody(limits)), "", "request about a host");
}

async function admit(
  c: Context<HttpEnv>,
  verb: "cordon" | "uncordon",
  context: HostsContext,
): Promise<Response> {
  await readNoOptions(c, context);
  const { store: { hosts }, hostUuid } = context;
  const { uuid, name } = await hostOf(c, context);
  const host = await hosts[verb](uuid);
  if (host === undefined) throw removed(name);
  return c.json(hostOnWire(host, (await hosts.jobs()).get(uuid), hostUuid));
}

async function forget(c: Context<HttpEnv>, context: HostsContext): Promise<Response> {
  await readNoOptions(c, context);
  const { store: { hosts }, hostUuid, log } = context;
  const { uuid, name } = await hostOf(c, context);
  const outcome = await hosts.forget(uuid);
  switch (outcome.kind) {
    case "not_found":
      throw removed(name);
    case "heard":
      throw new AgentError("conflict", heardText(outcome.host));
    case "forgotten": {
      const { host, failed_jobs } = outcome;
      log.warn("host forgotten", { host: uuid, name, failed_jobs });
      const jobs = (await hosts.jobs()).get(uuid);
      return c.json({ host: hostOnWire(host, jobs, hostUuid), failed_jobs });
    }
    default:
      return unreachable(outcome);
  }
}

function removed(name: string): AgentError {
  const message = `Cannot find host ${JSON.stringify(name)}: it was removed during the request`;
  return new AgentError("not_found", message);
}

function heardText({ uuid, name, silent_ms, lease_ms }: ListedHost): string {
  const [silent, lease] = [silent_ms, lease_ms].map((ms) => Math.round(ms / MS_PER_SECOND));
  return `Cannot forget host ${uuid} (${name}): its agent was heard from ${silent} s ago, expected ` +
    `${lease} s without a heartbeat`;
}

function hostOnWire(
  { silent_ms, lease_ms, ...host }: ListedHost,
  jobs: HostJobs = { running: 0, queued: 0 },
  hostUuid: string,
): HostOnWire {
  return {
    uuid: host.uuid,
    name: host.name,
    state: host.state,
    this_host: host.uuid === hostUuid,
    version: host.version,
    slots: host.slots,
    ...jobs,
    capabilities: host.capabilities,
    brands: host.brands,
    allow_workflow: host.allow_workflow,
    allow_caller: host.allow_caller,
    address: host.address,
    generation: host.generation,
    seen_at: host.seen_at,
    age_seconds: Math.round(silent_ms / MS_PER_SECOND),
    lease_seconds: Math.round(lease_ms / MS_PER_SECOND),
    cordoned: host.cordoned,
    forgotten: host.forgotten,
  };
}
