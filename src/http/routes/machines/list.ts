// GET /agent/v1/machines: every machine of the hosts, and those that jobs are about to create.

import type { Context } from "hono";
import { about, anyText, integer, text } from "../../../domain/description/value.ts";
import { DAY_SECONDS } from "../../../domain/instant.ts";
import { listAllMachines, type ReadMachines } from "../../../machines/listing.ts";
import { hostOf } from "../../../store/host_store.ts";
import { markStale } from "../../answer/text_answer.ts";
import { PAGE_FIELDS, PAGE_MAX, readQuery } from "../../request/query.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { here, machineOnWire, shownMachine } from "./machine_on_wire.ts";

type ListContext = Pick<ServedAgent, "store" | "wording" | "machines" | "hostUuid" | "peers">;

/** States are vmadm's words; there is no complete list of them. */
const word = text(/^[a-z_]{1,32}$/, "a word such as running");

const MACHINE_FILTER_FIELDS = {
  state: about("Only machines in this state.", word),
  brand: about("Only machines of this brand.", word),
  alias: about("Only machines of this name.", anyText()),
};

/** The query of GET /agent/v1/machines. */
export const MACHINE_QUERY_FIELDS = {
  ...MACHINE_FILTER_FIELDS,
  host: about("Only machines of this host, by its uuid or its name.", anyText()),
  ...PAGE_FIELDS,
  max_age: about(
    "Accepts vmadm's last answer if it is at most this many seconds old; `Age` is its age. Other hosts " +
      "report by themselves: see `age_seconds`.",
    integer(0, DAY_SECONDS),
    { default: 0 },
  ),
};

const NO_MACHINES = { machines: [], ageMs: 0 };

/** Every machine of the hosts, and those that jobs are about to create. */
export async function listMachines(
  c: Context<HttpEnv>,
  context: ListContext,
  readMachines: ReadMachines,
): Promise<Response> {
  const { limit = PAGE_MAX, offset = 0, max_age = 0, host, ...filter } = readQuery(
    c.req.url,
    MACHINE_QUERY_FIELDS,
  );
  const named = host === undefined
    ? undefined
    : (await hostOf(host, context.store, "Cannot filter machines", "host")).uuid;
  const hasOwn = named === undefined || named === context.hostUuid;
  const own = hasOwn ? await readMachines(max_age * 1000) : NO_MACHINES;
  if (own.ageMs > 0) c.header("age", String(Math.round(own.ageMs / 1000)));
  const place = { ...here(context), ageMs: own.ageMs };
  const { listed, count, stale } = await listAllMachines({ ...filter, host: named }, {
    limit,
    offset,
  }, {
    store: context.store,
    own: own.machines.map((machine) => ({ machine, place })),
    reports: named === context.hostUuid ? undefined : context.peers?.reports,
  });
  c.header("x-count", String(count));
  if (stale) markStale(c);
  return c.json(listed.map((one) => shownMachine(c, machineOnWire(one, context.wording))));
}
