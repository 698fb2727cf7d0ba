// The part of the description about a machine's later life: what is done to it, and its console.

import type { JsonObject } from "../../domain/json.ts";
import { CONSOLE_QUERY_FIELDS } from "../routes/machine_console.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { MACHINE_UUID, STARTED, STOPPED_UUID } from "./machine_schemas.ts";
import { inPath, jsonAnswer, jsonBody, parameterRef, schemaRef, UUID } from "./operation.ts";
import { queryParameters } from "./requests.ts";

const BY_UUID: JsonObject[] = [parameterRef("MachineUuid")];
const TICKET = "zwc_3q2-7wAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaG";
const KEPT = ["Location", "Idempotency-Replayed"];
const JOINED =
  "Answered once the job is kept. An equal request meanwhile is answered with the same " +
  "job; while another job has the machine, 409 names that one.";

/** What an action that is a job answers. */
function started(uuid: string): JsonObject {
  const example = { ...STARTED, uuid };
  return jsonAnswer("The job is kept.", schemaRef("MachineStarted"), example, KEPT);
}

function action(
  name: string,
  summary: string,
  description: string,
  schema: string,
  examples: Readonly<Record<string, JsonObject>>,
): JsonObject {
  return {
    post: {
      operationId: `machine_${name}`,
      summary,
      description: `${description} ${JOINED}`,
      parameters: [...BY_UUID, parameterRef("IdempotencyKey")],
      requestBody: jsonBody("How.", schemaRef(schema), examples),
      responses: {
        "202": started(MACHINE_UUID),
        ...refusals("404", ...BODY_REFUSALS, "502", "504", "507"),
      },
    },
  };
}

/** `DELETE /agent/v1/machines/{uuid}`. */
export const MACHINE_DELETE: JsonObject = {
  operationId: "machine_delete",
  summary: "Delete a machine with its disks, its zone and its media",
  description:
    "A machine that runs is stopped by force. There is nothing to choose: a body other " +
    `than an empty one, or \`{}\`, is refused. ${JOINED}`,
  parameters: [...BY_UUID, parameterRef("IdempotencyKey")],
  responses: {
    "202": started(MACHINE_UUID),
    ...refusals("404", "409", "413", "502", "504", "507"),
  },
};

/** Paths below a machine. */
export const MACHINE_ACTION_PATHS: Record<string, Record<string, JsonObject>> = {
  "/agent/v1/machines/{uuid}/boot": action(
    "boot",
    "Start a machine",
    "One that runs is left as it is: the job succeeds.",
    "MachineBoot",
    { disk: {}, medium: { order: "cd", once: "d", cdrom: "/installer.iso" } },
  ) as Record<string, JsonObject>,
  "/agent/v1/machines/{uuid}/stop": action(
    "stop",
    "Stop a machine",
    "One that is stopped is left as it is: the job succeeds.",
    "MachineForce",
    { graceful: {}, impatient: { timeout: 30 }, force: { force: true } },
  ) as Record<string, JsonObject>,
  "/agent/v1/machines/{uuid}/reboot": action(
    "reboot",
    "Stop a running machine and start it again",
    "A medium that was given at its boot is not given again.",
    "MachineForce",
    { graceful: {}, force: { force: true } },
  ) as Record<string, JsonObject>,
  "/agent/v1/machines/{uuid}/eject": {
    post: {
      operationId: "machine_eject",
      summary: "Take media out of a stopped machine",
      description: `They are detached, and removed from its zone. ${JOINED}`,
      parameters: [
        inPath("uuid", "The uuid of a machine that is stopped.", UUID, STOPPED_UUID),
        parameterRef("IdempotencyKey"),
      ],
      requestBody: jsonBody("Which.", schemaRef("MachineEject"), {
        all: {},
        one: { files: ["/installer.iso"] },
      }),
      responses: {
        "202": started(STOPPED_UUID),
        ...refusals("404", ...BODY_REFUSALS, "502", "504", "507"),
      },
    },
  },
  "/agent/v1/machines/{uuid}/vnc": {
    get: {
      operationId: "machine_vnc",
      summary: "What `vmadm info` prints of the console, its password included",
      parameters: BY_UUID,
      responses: {
        "200": jsonAnswer("The console.", schemaRef("VncInfo"), {
          vnc: { host: "127.0.0.1", port: 5901, display: 1, password: "Qf7mW2kd" },
        }),
        ...refusals("404", "409", "502", "504"),
      },
    },
  },
  "/agent/v1/machines/{uuid}/console": {
    get: {
      operationId: "machine_console",
      summary: "The console as a WebSocket",
      description:
        "With `Upgrade: websocket` the answer is 101, and the connection carries RFB in " +
        "binary messages, untouched: the viewer authenticates itself with the password of " +
        "`GET .../vnc`. Where the console is, vmadm is asked anew for each connection; a machine " +
        "that has none answers 409, one whose console does not introduce itself 502 or 504, and " +
        "503 means that as many consoles are open as may be. Without an upgrade the answer tells " +
        "the address to a client that can, and a ticket is left as it is.",
      parameters: [
        ...BY_UUID,
        ...queryParameters(CONSOLE_QUERY_FIELDS, { ticket: TICKET }),
      ],
      responses: {
        "200": jsonAnswer("Where it is.", schemaRef("Console"), {
          url: `wss://agent.example.com/agent/v1/machines/${MACHINE_UUID}/console`,
          protocol: "binary",
        }),
        ...refusals("404", "409", "502", "504"),
      },
    },
  },
  "/agent/v1/machines/{uuid}/console-tickets": {
    post: {
      operationId: "machine_console_ticket",
      summary: "Make a ticket that opens the console once",
      description:
        "For a browser, which cannot send a token with a WebSocket: `url` is the console with the " +
        "ticket in its query. It is good for one request, for this machine, and for seconds. 503 " +
        "means that as many are not used yet as there may be.",
      parameters: BY_UUID,
      requestBody: jsonBody("Nothing is asked for.", schemaRef("ConsoleTicketRequest"), {
        empty: {},
      }),
      responses: {
        "201": jsonAnswer("The ticket, which is shown this once.", schemaRef("ConsoleTicket"), {
          ticket: TICKET,
          url: `wss://agent.example.com/agent/v1/machines/${MACHINE_UUID}/console?ticket=${TICKET}`,
          expires_at: "2026-11-20T13:00:30.000Z",
        }),
        ...refusals("404", ...BODY_REFUSALS, "502", "504"),
      },
    },
  },
};
