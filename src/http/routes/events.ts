// GET /agent/v1/events: events as they happen, as server-sent events.
// @see html.spec.whatwg.org/multipage/server-sent-events.html

import { type Context, Hono } from "hono";
import { EVENT_KINDS, type EventKind } from "../../domain/event.ts";
import { about, atMostChars, kept, text, wholeText } from "../../domain/description/value.ts";
import { AgentError } from "../../domain/error.ts";
import { type JobUuid, type MachineUuid, UUID } from "../../domain/id.ts";
import type { EventFilter } from "../../store/event_store.ts";
import { jobNotFound } from "../../store/job_orders.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { openEventFeed } from "../events/feed.ts";
import { eventStream, startAt } from "../events/stream.ts";
import { isStillGood, OPEN_ACCESS, seesSecrets } from "../request/caller.ts";
import { readQuery } from "../request/input.ts";

type EventContext = Pick<
  HttpContext,
  "store" | "now" | "machines" | "log" | "limits" | "closing" | "access"
>;

const UUIDS_MAX = 16;
/** 36 characters and a comma for each. */
const LIST_CHARS_MAX = 37 * UUIDS_MAX;
const ID_CHARS_MAX = 64;

const HEX_UUID = UUID.source.slice(1, -1).replaceAll("a-f", "A-Fa-f");

function uuids<T extends JobUuid | MachineUuid>() {
  return kept(
    atMostChars(
      LIST_CHARS_MAX,
      text(
        new RegExp(`^${HEX_UUID}(?:,${HEX_UUID}){0,${UUIDS_MAX - 1}}$`),
        `1 to ${UUIDS_MAX} uuids separated by commas`,
      ),
    ),
    // The pattern has checked each of them.
    (words) => words.toLowerCase().split(",") as T[],
  );
}

const KIND = `(?:${EVENT_KINDS.join("|")})`;

/** The query of the stream. */
export const EVENT_QUERY_FIELDS = {
  job: about(
    `Only events of these jobs: up to ${UUIDS_MAX} uuids, separated by commas.`,
    uuids<JobUuid>(),
  ),
  kind: about(
    `Only events of these kinds, separated by commas: ${EVENT_KINDS.join(", ")}.`,
    kept(
      text(
        new RegExp(`^${KIND}(?:,${KIND}){0,${EVENT_KINDS.length - 1}}$`),
        `words separated by commas, each one of ${EVENT_KINDS.join(", ")}`,
      ),
      (words) => words.split(",") as EventKind[],
    ),
  ),
  machine: about(
    `Only events of these machines and of their jobs, up to ${UUIDS_MAX} uuids with commas between ` +
      "them. The removal of a job names no machine.",
    uuids<MachineUuid>(),
  ),
  last_event_id: about(
    "The same as the header `Last-Event-ID`, for the first connection of a browser. If " +
      "both are sent, the header counts.",
    wholeText(1, ID_CHARS_MAX),
  ),
};

/** `GET /agent/v1/events`: a stream, or a page of it. */
export function eventRoutes(context: EventContext): Hono<HttpEnv> {
  const { store, now, log, machines, limits } = context;
  const feed = openEventFeed({ store, now, host: machines.host, log });
  let open = 0;
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/events", async (c) => {
    const { last_event_id, ...filter } = readQuery(c.req.url, EVENT_QUERY_FIELDS);
    // A reconnecting browser sends the header; its query still has the position where it began.
    const id = c.req.header("last-event-id") ?? last_event_id;
    if (id === undefined) await refuseUnknown(filter, context);
    if (open >= limits.eventStreamsMax) {
      const message = `Cannot open a stream of events: ${open} are open, the maximum ` +
        "(setting limits.event_streams_max)";
      throw new AgentError("overloaded", message, { retryAfterSeconds: 5 });
    }
    open += 1;
    try {
      const start = startAt(id, { ...await feed.now(), prefix: feed.prefix });
      return answerStream(c, { feed, filter, start }, context, () => open -= 1);
    } catch (error) {
      open -= 1;
      throw error;
    }
  });
  return app;
}

/** Refuses the uuid of no job, which would match no event. @throws {AgentError} `not_found` */
async function refuseUnknown({ job = [] }: EventFilter, { store }: EventContext): Promise<void> {
  for (const uuid of job) {
    if (await store.jobs.execution(uuid) === undefined) throw jobNotFound(uuid);
  }
}

function answerStream(
  c: Context<HttpEnv>,
  begun: Pick<Parameters<typeof eventStream>[0], "feed" | "filter" | "start">,
  { closing, log, access = OPEN_ACCESS }: EventContext,
  leave: () => void,
): Response {
  const caller = c.get("caller");
  const request_id = c.get("request_id");
  // From here on it counts as a stream, not as a request.
  c.get("release")();
  c.header("content-type", "text/event-stream");
  // Neither cached nor compressed, so that each event arrives at once.
  c.header("cache-control", "no-store, no-transform");
  if (c.req.method === "HEAD") {
    leave();
    return c.body(null);
  }
  const body = eventStream({
    ...begun,
    closing,
    showsParams: seesSecrets(caller),
    allowed: () => caller === undefined ? Promise.resolve(true) : isStillGood(caller, access),
    taken: () => c.env?.moved?.(),
    ended: (why) => {
      leave();
      log.debug("event stream ended", { request_id, why });
    },
  });
  return c.body(body);
}
