// /agent/v1/leftovers: what jobs should have removed from the host and could not. The agent keeps trying. The list
// shows what is pending, and an operator may drop what no attempt can remove.

import { type Context, Hono } from "hono";
import { type ShapeOf, shapeRef, TEXT, whole } from "../../../domain/description/answer.ts";
import { object } from "../../../domain/description/object.ts";
import { parse } from "../../../domain/description/description.ts";
import { about, anyText } from "../../../domain/description/value.ts";
import { type MachineUuid, parsePathUuid } from "../../../domain/id.ts";
import { dropLeftover, LEFTOVER, leftoverOnWire } from "../../../machines/leftovers.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { readJson, smallBody } from "../../request/body.ts";
import { PAGE_MAX, readQuery } from "../../request/query.ts";
import { hostOf } from "../../../store/host_store.ts";

/** The body of a request to drop one, which has no options. */
const dropRequest = object({});

/** The query of both. */
export const LEFTOVER_QUERY_FIELDS = {
  host: about("Only leftovers of this host, by its uuid or its name.", anyText()),
};

/** The answer of `DELETE /agent/v1/leftovers/UUID`. What remains on the host is the caller's to remove. */
export const LEFTOVER_DROPPED = whole("What the agent no longer tries to remove.", {
  dropped: shapeRef("Leftover", LEFTOVER),
  note: { ...TEXT, description: "A sentence for people." },
});

/** The route of leftovers. @see docs/machines.md, Leftovers */
export function leftoverRoutes(
  { store, wording, limits, log }: Pick<ServedAgent, "store" | "wording" | "limits" | "log">,
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const filterOf = async (c: Context<HttpEnv>) => {
    const { host } = readQuery(c.req.url, LEFTOVER_QUERY_FIELDS);
    if (host === undefined) return {};
    return { host_uuid: (await hostOf(host, store, "Cannot filter leftovers", "host")).uuid };
  };
  app.get("/agent/v1/leftovers", async (c) => {
    const left = await store.machineClaims.left({ ...await filterOf(c), limit: PAGE_MAX });
    return c.json(left.map((leftover) => leftoverOnWire(leftover, wording)));
  });
  app.delete("/agent/v1/leftovers/:uuid", async (c) => {
    const uuid = parsePathUuid<MachineUuid>(c.req.param("uuid"), "machine");
    parse(dropRequest, await readJson(c, smallBody(limits)), "", "request to drop a leftover");
    const dropped = await dropLeftover({ uuid, ...await filterOf(c) }, { store, log });
    const note = `The agent does not try again to remove machine ${uuid} from host ` +
      `${JSON.stringify(dropped.host)}. What is left there stays.`;
    const answer: ShapeOf<typeof LEFTOVER_DROPPED> = {
      dropped: leftoverOnWire(dropped, wording),
      note,
    };
    return c.json(answer);
  });
  return app;
}
