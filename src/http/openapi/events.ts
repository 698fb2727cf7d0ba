// The stream of events in the OpenAPI document.

import {
  EVENT_KINDS,
  EVENT_PAYLOADS,
  PROGRESS_EVENT_MS,
  resetPayload,
} from "../../domain/event.ts";
import type { Description } from "../../domain/description/description.ts";
import type { JsonObject } from "../../domain/json.ts";
import { EVENTS_KEPT } from "../../store/event_store.ts";
import { EVENT_QUERY_FIELDS } from "../routes/events/events.ts";
import { refusals } from "./errors.ts";
import { HOST_UUID } from "./hosts.ts";
import { JOB_UUID, MACHINE_UUID } from "./schemas.ts";
import { schemaRef } from "../../domain/description/answer.ts";
import { emptyAnswer, type OpenapiPart, queryParameters } from "./operation.ts";

/** The name of a kind's schema: `JobEvent` for `job`. */
function schemaName(kind: string): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}Event`;
}

function schemas(): JsonObject {
  const components: JsonObject = {};
  for (const kind of EVENT_KINDS) {
    const payload: Pick<Description<unknown>, "schema"> = EVENT_PAYLOADS[kind];
    components[schemaName(kind)] = payload.schema(components);
  }
  components[schemaName("reset")] = resetPayload.schema(components);
  return components;
}

const EXAMPLE = `retry: 1000
id: 4711

id: 4712
event: host
data: {"time":"2026-01-31T18:30:00.020Z","host_uuid":"${HOST_UUID}","change":"draining","detail":"SIGTERM"}

: heartbeat
id: 4712

`;

/** `GET /agent/v1/events`. */
export const EVENTS: OpenapiPart = {
  tag: { name: "Events", description: "Live events." },
  schemas: schemas(),
  parameters: {
    LastEventId: {
      name: "Last-Event-ID",
      in: "header",
      description:
        "The id of the last event that the reader has seen; the stream continues after it.",
      schema: { type: "string" },
      example: "0",
    },
  },
  paths: {
    "/agent/v1/events": {
      get: {
        operationId: "events",
        summary: "Live events",
        description:
          "Server-sent events. Each has an `id`, its kind as `event`, and a JSON object in one line as " +
          `\`data\`: ${
            EVENT_KINDS.map((kind) => `\`${kind}\` is a \`${schemaName(kind)}\``).join(", ")
          }. Ids are increasing numbers, also across restarts, after an \`s\` where hosts ` +
          "share the database. With `Last-Event-ID` the stream continues after that event, and nothing is lost or sent twice, except events about what has " +
          `been removed since. At least the last ${EVENTS_KEPT} events are kept. An older id is answered ` +
          "with `event: reset` and a `ResetEvent` of the reason `old`; an id that never existed, with the " +
          "reason `unknown`. Without an id the stream begins now. A comment every five seconds shows that " +
          "the stream is alive; the `id` beside it is the place to continue from. Progress of a download " +
          `or upload is sent at most every ${PROGRESS_EVENT_MS / 1000} seconds. A reader is ` +
          "disconnected when over 1 MiB of new events wait for it, when it reads nothing for 30 seconds, " +
          "or when events that it has not read are removed. The stream ends when the agent stops, after " +
          "the `host` event `draining`, and when the token is revoked. For the scope `read`, params of " +
          "jobs are masked; log lines and progress are masked for everyone, as in the log of a job.",
        parameters: [
          { $ref: "#/components/parameters/LastEventId" },
          ...queryParameters(EVENT_QUERY_FIELDS, {
            job: JOB_UUID,
            kind: "job,log",
            machine: MACHINE_UUID,
            last_event_id: "0",
          }),
        ],
        responses: {
          "200": {
            ...emptyAnswer("The stream."),
            content: {
              "text/event-stream": {
                schema: {
                  type: "string",
                  description: "Blocks of lines; `contentSchema` describes each `data`.",
                  contentSchema: {
                    anyOf: [...EVENT_KINDS, "reset"].map((kind) => schemaRef(schemaName(kind))),
                  },
                },
                example: EXAMPLE,
              },
            },
          },
          ...refusals("404", "409"),
        },
      },
    },
  },
};
