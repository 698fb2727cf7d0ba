// Machines in the OpenAPI document: making, changing and deleting them, their consoles, and what was left of them.

import { HOST_UUID } from "./hosts.ts";
import { DRY_RUN } from "../../machines/dry_run.ts";
import { MACHINE } from "../../domain/machine/shown.ts";
import { MACHINE_STARTED } from "../../domain/machine/shown.ts";
import { LEFTOVER } from "../../machines/leftovers.ts";
import type { JsonObject } from "../../domain/json.ts";
import { LEFTOVER_DROPPED, LEFTOVER_QUERY_FIELDS } from "../routes/machines/leftovers.ts";
import { MACHINE_READ, VNC_INFO } from "../routes/machines/machines.ts";
import { MACHINE_QUERY_FIELDS } from "../routes/machines/list.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import {
  DESCRIPTION,
  LISTED_MACHINE,
  MACHINE_JOB,
  MACHINE_SCHEMAS,
  MACHINE_UUID,
  STARTED,
  STOPPED_UUID,
} from "./schemas.ts";
import {
  listOf,
  schemaRef,
  type ShapeOf,
  shapeRef,
  UUID,
} from "../../domain/description/answer.ts";
import {
  inPath,
  jsonAnswer,
  jsonBody,
  type OpenapiPart,
  parameterRef,
  queryParameters,
} from "./operation.ts";
import { MEDIUM_SHA256 } from "./media.ts";
import { CONSOLE, CONSOLE_QUERY_FIELDS } from "../routes/machines/console.ts";
import { CONSOLE_TICKET } from "../routes/machines/console_ticket.ts";

const BY_UUID: JsonObject[] = [parameterRef("MachineUuid")];
const JOB_HEADERS = ["Location", "Idempotency-Replayed"];
const TICKET = "zwc_3q2-7wAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaG";

const JOINS_EQUAL =
  "Answered once the job is stored. An equal request meanwhile is answered with the same " +
  "job; while another job has the machine, 409 names that one.";

/** The answer to an action that becomes a job. */
function started(uuid: string): JsonObject {
  const example = { ...STARTED, uuid };
  return jsonAnswer(
    "The job was stored.",
    shapeRef("MachineStarted", MACHINE_STARTED),
    example,
    JOB_HEADERS,
  );
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
      description: `${description} ${JOINS_EQUAL}`,
      parameters: [...BY_UUID, parameterRef("IdempotencyKey")],
      requestBody: jsonBody("Options.", schemaRef(schema), examples),
      responses: {
        "202": started(MACHINE_UUID),
        ...refusals("404", ...BODY_REFUSALS, "502", "504", "507"),
      },
    },
  };
}

const MACHINE_DELETE: JsonObject = {
  operationId: "machine_delete",
  summary: "Delete a machine with its disks, its zone and its media",
  description: "A machine that runs is stopped by force. There are no options: a body other " +
    `than an empty one, or \`{}\`, is refused. ${JOINS_EQUAL}`,
  parameters: [...BY_UUID, parameterRef("IdempotencyKey")],
  responses: {
    "202": started(MACHINE_UUID),
    ...refusals("404", "408", "409", "413", "502", "504", "507"),
  },
};

const MACHINE_ACTION_PATHS: Record<string, Record<string, JsonObject>> = {
  "/agent/v1/machines/{uuid}/boot": action(
    "boot",
    "Start a machine",
    "If it runs already, nothing is done and the job succeeds.",
    "MachineBoot",
    { disk: {}, medium: { order: "cd", once: "d", cdrom: "/installer.iso" } },
  ) as Record<string, JsonObject>,
  "/agent/v1/machines/{uuid}/stop": action(
    "stop",
    "Stop a machine",
    "If it is already stopped, nothing is done and the job succeeds.",
    "MachineForce",
    { graceful: {}, impatient: { timeout: 30 }, force: { force: true } },
  ) as Record<string, JsonObject>,
  "/agent/v1/machines/{uuid}/reboot": action(
    "reboot",
    "Stop a running machine and start it again",
    "A medium attached at its last boot is not attached again.",
    "MachineForce",
    { graceful: {}, force: { force: true } },
  ) as Record<string, JsonObject>,
  "/agent/v1/machines/{uuid}/eject": {
    post: {
      operationId: "machine_eject",
      summary: "Eject media from a stopped machine",
      description: `Detaches them and removes them from the zone. ${JOINS_EQUAL}`,
      parameters: [
        inPath("uuid", "The uuid of a stopped machine.", UUID, STOPPED_UUID),
        parameterRef("IdempotencyKey"),
      ],
      requestBody: jsonBody("The media.", schemaRef("MachineEject"), {
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
      summary: "What `vmadm info` prints about the console, including its password",
      parameters: BY_UUID,
      responses: {
        "200": jsonAnswer("The console.", shapeRef("VncInfo", VNC_INFO), {
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
        "`GET .../vnc`. The agent asks vmadm for the address on each connection. A machine " +
        "that does not run answers 409, a console that sends no RFB banner 502 or 504; 503 means " +
        "that the limit of open consoles is reached. Without an upgrade the answer holds the " +
        "address of the WebSocket, and a ticket stays valid.",
      parameters: [
        ...BY_UUID,
        ...queryParameters(CONSOLE_QUERY_FIELDS, { ticket: TICKET }),
      ],
      responses: {
        "200": jsonAnswer("The address.", shapeRef("Console", CONSOLE), {
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
      summary: "Create a ticket that opens the console once",
      description:
        "For a browser, which cannot send a token with a WebSocket: `url` is the console with " +
        "the ticket in its query. It is valid for one request and a few seconds. 503 means " +
        "that there are too many unused tickets.",
      parameters: BY_UUID,
      requestBody: jsonBody("An empty object.", schemaRef("ConsoleTicketRequest"), {
        empty: {},
      }),
      responses: {
        "201": jsonAnswer(
          "The ticket, which is not shown again.",
          shapeRef("ConsoleTicket", CONSOLE_TICKET),
          {
            ticket: TICKET,
            url:
              `wss://agent.example.com/agent/v1/machines/${MACHINE_UUID}/console?ticket=${TICKET}`,
            expires_at: "2026-11-20T13:00:30.000Z",
          },
        ),
        ...refusals("404", ...BODY_REFUSALS, "502", "504"),
      },
    },
  },
};

const EXAMPLE: ShapeOf<typeof LEFTOVER> = {
  uuid: MACHINE_UUID,
  host: "root@smartos.example.com",
  host_uuid: "6f3bd7a0-2f6c-4f0e-9a51-8d1d6a3c0b11",
  job_uuid: MACHINE_JOB,
  job_execution: "failure",
  claimed_at: "2026-11-20T12:00:00.000Z",
  tries: 2,
  next_try_at: "2026-11-20T12:09:00.000Z",
  error: `Cannot delete machine ${MACHINE_UUID}: "vmadm delete ${MACHINE_UUID}" exited with code 1`,
};

const LEFTOVER_SCHEMAS: JsonObject = { Leftover: LEFTOVER, LeftoverDropped: LEFTOVER_DROPPED };

const LEFTOVER_PATHS: Readonly<Record<string, Readonly<Record<string, JsonObject>>>> = {
  "/agent/v1/leftovers": {
    get: {
      operationId: "leftover_list",
      summary: "What failed jobs left on the hosts, and when each agent tries again to remove it",
      parameters: queryParameters(LEFTOVER_QUERY_FIELDS, { host: HOST_UUID }),
      responses: {
        "200": jsonAnswer("The leftovers; usually none.", listOf(shapeRef("Leftover", LEFTOVER)), [
          EXAMPLE,
        ]),
        ...refusals(),
      },
    },
  },
  "/agent/v1/leftovers/{uuid}": {
    delete: {
      operationId: "leftover_drop",
      summary: "Stop trying to remove a leftover",
      description:
        "For one that no attempt can remove, such as on a host that is gone. The host is " +
        "not asked, and what it has stays. There are no options: a body other than an empty one, or " +
        "`{}`, is refused. While the machine is of a job that has not failed, 409 names that job. " +
        "Where several hosts have one of the machine, `host` says which.",
      parameters: [...BY_UUID, ...queryParameters(LEFTOVER_QUERY_FIELDS, { host: HOST_UUID })],
      responses: {
        "200": jsonAnswer("The leftover.", shapeRef("LeftoverDropped", LEFTOVER_DROPPED), {
          dropped: EXAMPLE,
          note: `The agent does not try again to remove machine ${MACHINE_UUID} from host ` +
            '"root@smartos.example.com". What is left there stays.',
        }),
        ...refusals("404", "408", "409", "413"),
      },
    },
  },
};

const REQUESTS: Record<string, JsonObject> = {
  path: {
    uuid: "3d9b1f6a-5c0e-4f7b-8a21-7e6d5c4b3a29",
    machine: DESCRIPTION,
    media: { path: "/media/installer.iso" },
    boot: "cd",
  },
  dry_run: { machine: DESCRIPTION, media: { path: "/media/installer.iso" }, dry_run: true },
  artifact: {
    machine: DESCRIPTION,
    media: { artifact: { distro: "zonewright-sample", release: "latest", format: "iso" } },
  },
  url: {
    machine: { brand: "bhyve", ram: 2048, bootrom: "uefi" },
    media: { url: "https://images.example.com/installer.iso", digest: `sha256:${MEDIUM_SHA256}` },
  },
};

/** The operations on machines. @see document 3 */
export const MACHINES: OpenapiPart = {
  tag: {
    name: "Machines",
    description:
      "Virtual machines that boot from installation media. A job of the built-in workflow " +
      "`provision-machine` creates one: it ends with a running machine, or removes what it " +
      "created.",
  },
  parameters: { MachineUuid: inPath("uuid", "The machine's uuid.", UUID, MACHINE_UUID) },
  schemas: { ...MACHINE_SCHEMAS, ...LEFTOVER_SCHEMAS },
  paths: {
    "/agent/v1/machines": {
      get: {
        operationId: "machine_list",
        summary: "Every machine of the hosts, and those that a job is about to create",
        description:
          "Where hosts share a database, the machines of the others are as each last reported them: " +
          "`age_seconds` says how long ago. Requests about one machine are answered by its host.",
        parameters: queryParameters(MACHINE_QUERY_FIELDS, {
          state: "running",
          brand: "kvm",
          alias: "web1",
          host: HOST_UUID,
          limit: 50,
          offset: 0,
          max_age: 60,
        }),
        responses: {
          "200": jsonAnswer(
            "The machines.",
            listOf(shapeRef("Machine", MACHINE)),
            [LISTED_MACHINE],
            [
              "X-Count",
              "Age",
              "X-Stale",
            ],
          ),
          ...refusals("404", "409", "502", "504"),
        },
      },
      post: {
        operationId: "machine_create",
        summary: "Create a machine that boots from a medium",
        description:
          "Answered once the job is stored; wait for it with `GET /jobs/{job_uuid}/wait`. If " +
          "another job of the machine is unfinished, 409 names that job; if another machine has " +
          "the uuid, 409 names that machine. A medium that is not available, or is not what its " +
          "name says, is refused before there is a job.",
        parameters: [parameterRef("IdempotencyKey")],
        requestBody: jsonBody("The machine.", schemaRef("MachineRequest"), REQUESTS),
        responses: {
          "200": jsonAnswer(
            "With `dry_run`: what would be created.",
            shapeRef("MachineDryRun", DRY_RUN),
            {
              dry_run: true,
              possible: false,
              uuid: null,
              job_uuid: null,
              machine: DESCRIPTION,
              media: { path: "/media/installer.iso" },
              boot: "cd",
              medium: null,
              problems: [{
                error_code: "not_found",
                status: 404,
                message: "Cannot find medium /media/installer.iso: it is not there",
                errors: [],
              }],
              unchecked: [],
            },
          ),
          "202": jsonAnswer(
            "The job was stored.",
            shapeRef("MachineStarted", MACHINE_STARTED),
            STARTED,
            JOB_HEADERS,
          ),
          ...refusals("404", ...BODY_REFUSALS, "502", "504", "507"),
        },
      },
    },
    "/agent/v1/machines/{uuid}": {
      get: {
        operationId: "machine_get",
        summary: "Get a machine with the address of its console",
        parameters: [parameterRef("MachineUuid")],
        responses: {
          "200": jsonAnswer("The machine.", shapeRef("MachineRead", MACHINE_READ), {
            ...LISTED_MACHINE,
            vnc: { host: "127.0.0.1", port: 5901, display: 1 },
            console: `/agent/v1/machines/${MACHINE_UUID}/console`,
          }, ["X-Stale"]),
          ...refusals("404", "502", "504"),
        },
      },
      delete: MACHINE_DELETE,
    },
    ...MACHINE_ACTION_PATHS,
    ...LEFTOVER_PATHS,
  },
};
