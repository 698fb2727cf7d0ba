// An agent that is going to be hurt: started with variables, flags or another program around it,
// killed at any moment, and asked over connections of its own, so that nothing that was sent to one
// process reaches the next.

import { join } from "@std/path";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { type Program, programOfRun } from "../support/agent_process.ts";
import { withDeadline, withFolder } from "../support/until.ts";

/** Set to `full`, they run at full length. */
const LENGTH_VARIABLE = "ZONEWRIGHT_CHAOS";

/** Milliseconds in which an agent that lives must answer any request of these tests. */
const ANSWER_MS_MAX = 180_000;
const START_MS_MAX = 180_000;
const END_MS_MAX = 90_000;
/** Characters kept of the beginning and of the end of what an agent logs. */
const WORDS_KEPT = 200_000;

const STARTED = /"agent started".*"urls":"(http:[^" ]+)/;

/** The length of a test: as part of every run, or of the target that does nothing else. */
export function length<T>(lengths: { readonly quick: T; readonly full: T }): T {
  return Deno.env.get(LENGTH_VARIABLE) === "full" ? lengths.full : lengths.quick;
}

/** An answer; `body` is null when it was empty. */
export interface Reply {
  readonly status: number;
  readonly body: JsonValue;
}

export interface Ended {
  readonly code: number;
  readonly signal: Deno.Signal | null;
}

export interface ChaosAgent {
  readonly url: string;
  readonly pid: number;
  /** Everything the agent has logged so far. */
  log(): string;
  /** The answer, or undefined when the connection broke before all of it was there. */
  call(
    method: string,
    path: string,
    body?: JsonObject,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Reply | undefined>;
  /** The answer of an agent that is known to live. */
  ask(method: string, path: string, body?: JsonObject): Promise<Reply>;
  /** Sends a signal, unless the process has ended already. */
  signal(signal: Deno.Signal): void;
  /** Settles when the process has ended. */
  readonly ended: Promise<Ended>;
}

/** What differs between two starts. */
export interface ChaosOptions {
  readonly program: Program;
  readonly stateDir: string;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A program with its arguments that runs the agent's, in the same process. */
  readonly around?: readonly string[];
}

/** A process that may or may not come to listen. */
export interface StartingAgent {
  readonly pid: number;
  log(): string;
  signal(signal: Deno.Signal): void;
  readonly ended: Promise<Ended>;
  /** The agent once it listens, or how it ended before. */
  readonly started: Promise<ChaosAgent | Ended>;
}

/** Begins to start an agent on a free port with a simulated host. */
export function beginAgent(options: ChaosOptions): StartingAgent {
  const { program, stateDir, flags = [], env = {}, around = [] } = options;
  const line = [
    ...around,
    program.program,
    ...program.args,
    "serve",
    ...["--listen", "127.0.0.1:0", "--state-dir", stateDir, "--log-format", "json"],
    ...["--host", "simulated"],
    ...flags,
  ];
  const process = new Deno.Command(line[0] ?? "", {
    args: line.slice(1),
    env: { ...program.env, ...env },
    clearEnv: true,
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const words = new LastWords();
  const listening = Promise.withResolvers<string>();
  let listens = false;
  const reading = process.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({
      write: (text) => {
        words.add(text);
        const url = listens ? undefined : STARTED.exec(words.text)?.[1];
        if (url === undefined) return;
        listens = true;
        listening.resolve(url);
      },
    }),
  );
  let exited = false;
  const ended = process.status.then(async ({ code, signal }) => {
    exited = true;
    await reading;
    return { code, signal };
  });
  const begun = {
    pid: process.pid,
    log: () => words.text,
    signal: (signal: Deno.Signal) => {
      try {
        if (!exited) process.kill(signal);
      } catch (error) {
        // It has ended, and the runtime knows it before its status is ours.
        if (!(error instanceof TypeError)) throw error;
      }
    },
    ended,
  };
  const started = withDeadline(
    Promise.race([listening.promise.then((url) => agentAt(url, begun)), ended]),
    START_MS_MAX,
    () => `the agent to listen or end:\n${words.text}`,
  );
  return { ...begun, started };
}

/** Starts an agent that is expected to listen. */
export async function startChaosAgent(options: ChaosOptions): Promise<ChaosAgent> {
  const starting = beginAgent(options);
  const agent = await starting.started;
  if ("url" in agent) return agent;
  throw new Error(`The agent ended (${agent.code}) before it listened:\n${starting.log()}`);
}

/** Ends an agent as a crash does. */
export async function killAgent(agent: Pick<ChaosAgent, "signal" | "ended">): Promise<void> {
  agent.signal("SIGKILL");
  await agent.ended;
}

/** Ends an agent in order, so that it leaves nothing behind; by force when it does not end. */
export async function endAgent(agent: Pick<ChaosAgent, "signal" | "ended">): Promise<void> {
  agent.signal("SIGTERM");
  await withDeadline(agent.ended, END_MS_MAX, () => "the agent to end").catch(() => {});
  await killAgent(agent);
}

/** Runs a function with an agent whose state is in a folder of its own; both are gone afterwards. */
export async function withChaosAgent(
  flags: readonly string[],
  run: (agent: ChaosAgent) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const stateDir = join(folder, "state");
    const agent = await startChaosAgent({ program: programOfRun(), stateDir, flags });
    try {
      await run(agent);
    } finally {
      await endAgent(agent);
    }
  });
}

function agentAt(url: string, begun: Omit<ChaosAgent, "url" | "call" | "ask">): ChaosAgent {
  const client = Deno.createHttpClient({});
  void begun.ended.then(() => client.close());
  const call: ChaosAgent["call"] = async (method, path, body, headers = {}) => {
    const what = () => `an answer to ${method} ${path}:\n${begun.log()}`;
    const answer = await withDeadline(
      exchange(client, url + path, { method, headers, body }),
      ANSWER_MS_MAX,
      what,
    );
    if (answer === undefined) return undefined;
    const { status, text } = answer;
    try {
      // What was parsed from JSON is a JSON value.
      return { status, body: text === "" ? null : JSON.parse(text) as JsonValue };
    } catch (error) {
      throw new Error(`${method} ${path} was answered ${status} ${text}`, { cause: error });
    }
  };
  const ask = async (method: string, path: string, body?: JsonObject) => {
    const reply = await call(method, path, body);
    if (reply !== undefined) return reply;
    throw new Error(`The agent did not answer ${method} ${path}:\n${begun.log()}`);
  };
  return { ...begun, url, call, ask };
}

/** One request; undefined when the connection broke before all of the answer was there. */
async function exchange(
  client: Deno.HttpClient,
  url: string,
  { method, headers, body }: {
    readonly method: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: JsonObject | undefined;
  },
): Promise<{ status: number; text: string } | undefined> {
  const sent = body === undefined ? { headers } : {
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  try {
    const response = await fetch(url, { client, method, ...sent });
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined;
  }
}

/** The first and the last of what a process said; what it said in between may be too much. */
class LastWords {
  #first = "";
  #last = "";

  add(text: string): void {
    if (this.#first.length < WORDS_KEPT) this.#first += text;
    else this.#last = (this.#last + text).slice(-WORDS_KEPT);
  }

  get text(): string {
    return this.#first + this.#last;
  }
}

/** The object that an answer holds. */
export function objectOf({ status, body }: Reply): JsonObject {
  if (isJsonObject(body)) return body;
  throw new Error(`Expected an object, found ${status} ${JSON.stringify(body)}`);
}

/** The objects that an answer lists. */
export function listOf({ status, body }: Reply): JsonObject[] {
  if (Array.isArray(body) && body.every(isJsonObject)) return body;
  throw new Error(`Expected a list of objects, found ${status} ${JSON.stringify(body)}`);
}
