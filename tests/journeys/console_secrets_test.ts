// Two secrets of a console, its password and a ticket, looked for in everything that an agent answers,
// prints and keeps: every operation of its description, its log, its audit, its database and a copy of
// that, and the commands of its operator.

import { assert, assertEquals, assertFalse } from "@std/assert";
import { join } from "@std/path";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { askRaw, consoleUrl, openConsole, shakeHands, UPGRADE } from "../http/console_client.ts";
import { DESCRIPTION, ISO } from "../http/machine_process.ts";
import { isRefused, OPERATIONS, pathOf } from "../http/openapi_operations.ts";
import {
  type AgentProcess,
  type Program,
  runProgram,
  startAgentProcess,
} from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";
import { isoBytes } from "../support/medium.ts";

const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const PATH = `/agent/v1/machines/${MACHINE}`;
/** Is found wherever machines and jobs are, which shows that what is searched can be read. */
const ALIAS = "nightingale-canary";
/** Shows the password on purpose. */
const TELLING = "machine_vnc";
/** Would end the machine, or what shows it. */
const ENDING = ["machine_delete", "machine_stop", "machine_reboot"];

/** A body that shows in every way it can what it sees of the machine. */
const CURIOUS = `async function (job, cb) {
  const machine = await vmadm.get(${JSON.stringify(MACHINE)});
  const found = { machine, all: await vmadm.list(), vnc: await vmadm.info(machine.uuid, "vnc") };
  log.info(JSON.stringify(found), found);
  console.log(found);
  await info(found);
  job.params.found = found;
  try { await vmadm.boot(machine.uuid, { order: "zz" }); } catch (error) { log.warn(String(error)); }
  try { await vmadm.create(machine); } catch (error) { log.warn(error.message, { ...error }); }
  cb("saw " + JSON.stringify(found));
}`;

interface Scene {
  readonly program: Program;
  readonly agent: AgentProcess;
  readonly folder: string;
  /** Runs a command of the operator, and returns what it printed. */
  command(...words: string[]): Promise<string>;
}

async function withScene(program: Program, run: (scene: Scene) => Promise<void>): Promise<void> {
  await withFolder(async (temporary) => {
    const folder = await Deno.realPath(temporary);
    await Deno.mkdir(join(folder, "media"));
    await Deno.writeFile(join(folder, "media", ISO), isoBytes(300 * 1024));
    const flags = [
      ...["--host", "simulated", "--media-dir", join(folder, "media"), "--log-level", "debug"],
      ...["--audit-file", join(folder, "audit.log")],
    ];
    const agent = await startAgentProcess(program, join(folder, "state"), flags);
    const command = async (...words: string[]) => {
      const { stdout, stderr } = await runProgram(program, words);
      return `${words.join(" ")}\n${stdout}${stderr}`;
    };
    try {
      await run({ program, agent, folder, command });
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  });
}

/** Makes the machine, looks at its console, and spends a ticket. @returns the secrets, by their names */
async function makeSecrets(agent: AgentProcess): Promise<Record<string, string>> {
  const machine = { ...DESCRIPTION, alias: ALIAS };
  const made = await agent.post("/agent/v1/machines", {
    uuid: MACHINE,
    machine,
    media: { path: ISO },
  });
  const job = await agent.job(String(made.body.job_uuid), "success", "failure");
  assertEquals(job.execution, "success", JSON.stringify(job.chain_results));
  const { vnc } = (await agent.get(`${PATH}/vnc`)).body;
  const password = String(isJsonObject(vnc) ? vnc.password : "");
  assertEquals(password.length, 8);
  const viewer = await openConsole(consoleUrl(agent.url, MACHINE));
  await shakeHands(viewer, password);
  await viewer.close();
  const ticket = String((await agent.post(`${PATH}/console-tickets`)).body.ticket);
  assertEquals(ticket.length, 47);
  const port = Number(new URL(agent.url).port);
  for (const status of [101, 403]) {
    const answer = await askRaw(port, `${PATH}/console?ticket=${ticket}`, UPGRADE);
    assertEquals(answer.status, status);
  }
  return { password, ticket, "a part of the ticket": ticket.slice(8, 24) };
}

async function runCurious(agent: AgentProcess): Promise<string> {
  const workflow = { name: "curious", chain: [{ name: "look", body: CURIOUS }] };
  const { uuid } = (await agent.post("/workflows", workflow)).body;
  const job = (await agent.post("/jobs", { workflow: uuid ?? "", params: { ALIAS } })).body;
  const { execution } = await agent.job(String(job.uuid), "success", "failure");
  assertEquals(execution, "failure");
  return String(job.uuid);
}

/** All events until the stream has nothing more to send; it never ends by itself. */
async function tillIdle({ body }: Response): Promise<string> {
  let text = "";
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.includes(": heartbeat")) break;
  }
  return text;
}

/** What every operation answers: as its examples ask, as nobody should, and with all that there is. */
async function askAll(agent: AgentProcess, jobs: string[]): Promise<Map<string, string>> {
  const reported = new Map<string, string>();
  const ask = async (id: string, method: string, path: string, body?: string) => {
    const place = `${id} ${path} ${body?.slice(0, 40)}`;
    if (reported.has(place)) return;
    const headers = { "content-type": "application/json" };
    const init = { method, headers, ...(body === undefined ? {} : { body }) };
    const answer = await fetch(agent.url + path, init);
    const fields = JSON.stringify([...answer.headers]);
    reported.set(place, fields + await (id === "events" ? tillIdle(answer) : answer.text()));
  };
  for (const one of OPERATIONS.filter((one) => !isRefused(one))) {
    if (one.id === TELLING || ENDING.includes(one.id)) continue;
    for (const uuid of [MACHINE, ...jobs, "x"]) {
      const query = one.id === "events" ? "?last_event_id=0" : "";
      const path = pathOf(one, { uuid, job_uuid: uuid, workflow_uuid: uuid }) + query;
      if (one.method === "GET") await ask(one.id, "GET", path);
      else {for (const body of ["{}", "[", `{"vnc_password": 1}`]) {
          await ask(one.id, one.method, path, body);
        }}
    }
  }
  for (const query of ["?state=running", "?limit=1", "?alias=" + ALIAS, "?brand=kvm", "?x=1"]) {
    await ask("machine_list", "GET", `/agent/v1/machines${query}`);
  }
  await ask("machine_vnc of none", "GET", `${PATH.replace("0f5c", "1f5c")}/vnc`);
  return reported;
}

/** The text of every file below a folder, as bytes, by path. */
async function filesBelow(folder: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const entry of Deno.readDir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory) {
      for (const [name, text] of await filesBelow(path)) found.set(name, text);
    }
    if (entry.isFile) {
      found.set(path, new TextDecoder("latin1").decode(await Deno.readFile(path)));
    }
  }
  return found;
}

function assertSilent(
  reported: ReadonlyMap<string, string>,
  secrets: Record<string, string>,
): void {
  for (const [place, text] of reported) {
    for (const [name, secret] of Object.entries(secrets)) {
      const at = text.indexOf(secret);
      assertFalse(at >= 0, `${name} in ${place}: ${text.slice(Math.max(0, at - 80), at)}`);
    }
  }
}

function assertSeen(reported: ReadonlyMap<string, string>, part: string): void {
  const seen = [...reported].some(([place, text]) => place.includes(part) && text.includes(ALIAS));
  assert(seen, `nothing of the machine was found in ${part}`);
}

eachProgram(
  "no answer, log, record, backup or command shows the secrets of a console",
  (program) =>
    withScene(program, async ({ agent, folder, command }) => {
      const secrets = await makeSecrets(agent);
      const job = await runCurious(agent);
      const jobs = ((await agent.get("/jobs")).body.items as JsonObject[]).map(({ uuid }) => uuid);
      const answers = await askAll(agent, [job, ...jobs.map(String)]);
      assertSeen(answers, "machine_get");
      assertSeen(answers, "machine_list");
      assertSeen(answers, "job_get");
      assertSeen(answers, "job_info");
      assertSilent(answers, secrets);

      const state = ["--state-dir", join(folder, "state")];
      const url = ["--url", agent.url];
      const printed = new Map<string, string>();
      for (
        const words of [
          ["machine", "get", MACHINE, "--json", ...url],
          ["machine", "list", "--json", ...url],
          ["machine", "vnc", MACHINE, ...url],
          ["machine", "console", MACHINE, "--json", ...url],
          ["machine", "stop", MACHINE, "--curl", ...url],
          ["job", "get", job, "--json", ...url],
          ["job", "info", job, ...url],
          ["status", "--json", ...url],
          ["doctor", "--json", "--host", "simulated", ...state],
          ["config", "show", "--json", "--host", "simulated", ...state],
          ["db", "backup", join(folder, "backup.db"), ...state],
        ]
      ) {
        printed.set(words.slice(0, 2).join(" "), await command(...words));
      }
      assertSeen(printed, "machine get");
      assertSilent(printed, secrets);

      const log = new Map([["the log", agent.log()]]);
      assertSeen(log, "the log");
      assertSilent(log, secrets);

      const files = await filesBelow(folder);
      const simulator = join(folder, "state/simulator");
      const kept = new Map([...files].filter(([path]) => !path.startsWith(simulator)));
      assertSeen(kept, "backup.db");
      assertSeen(kept, join(folder, "state"));
      assert(kept.get(join(folder, "audit.log"))?.includes('"who":"ticket:loopback"'));
      assertSilent(kept, secrets);
      // That it can be found at all: vmadm keeps it, as the tool that is simulated does.
      const host = [...files].filter(([path]) => path.startsWith(simulator));
      assert(host.some(([, text]) => text.includes(secrets.password ?? "")));
    }),
);
