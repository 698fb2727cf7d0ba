// Answers that are meant for the terminal rather than for the command line, and agents that are away.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { noEvents, screenFor } from "./screen.ts";

const UUID = "11111111-2222-4333-8444-555555555555";
/** Sets the window's title, turns the text red, and turns its direction round. */
const EVIL = "\x1b]0;evil\x07\x9b31m\u202e\r";
// deno-lint-ignore no-control-regex -- control characters are what is looked for.
const DANGEROUS = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/;

const KEYS = [
  ...[
    "uuid",
    "name",
    "workflow_uuid",
    "execution",
    "exec_after",
    "reason",
    "next_run_at",
    "prev_attempt",
    "next_attempt",
    "locks",
    "callback_url",
    "target",
    "created_at",
    "job_uuid",
  ],
  ...[
    "alias",
    "brand",
    "state",
    "job_execution",
    "id",
    "title",
    "os_family",
    "build",
    "arch",
    "kind",
  ],
  ...["url", "algorithm", "value", "outcome", "backend", "upstream", "message", "error", "distro"],
];

/** One object that is every answer at once, each text of it hostile. */
function hostile(execution: string): Record<string, unknown> {
  const flat = Object.fromEntries(KEYS.map((key) => [key, EVIL + key]));
  const artifact = { ...flat, locations: [flat], integrity: { digests: [flat] } };
  return {
    ...flat,
    execution,
    params: { [EVIL]: EVIL },
    chain: [flat],
    chain_results: [flat],
    canceled: [flat],
    retried: [flat],
    refused: [flat],
    vnc: { host: EVIL, port: 5901 },
    media: { path: EVIL },
    distros: [flat],
    releases: [{ ...flat, aliases: [EVIL] }],
    builds: [{ ...flat, artifacts: [artifact] }],
    lines: [
      { ...flat, sequence: 1, task: EVIL, level: EVIL, fields: { [EVIL]: EVIL } },
      {
        ...flat,
        sequence: 2,
        time: EVIL,
        message: null,
        progress: { phase: EVIL, done: 1, total: 2 },
      },
    ],
    last_sync: { ...flat, problems: [{ document: EVIL, message: EVIL }] },
  };
}

async function withServer(
  answer: (request: Request) => Response,
  run: (url: string) => Promise<void>,
): Promise<void> {
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const server = Deno.serve(options, answer);
  try {
    await run(`http://127.0.0.1:${server.addr.port}`);
  } finally {
    await server.shutdown();
  }
}

function answersOf(execution: string): (request: Request) => Response {
  return ({ method, url }) => {
    const { pathname } = new URL(url);
    if (pathname === "/agent/v1/events") {
      return noEvents(EVIL);
    }
    const listed = ["/jobs", "/workflows", "/agent/v1/machines"].includes(pathname);
    const list = method === "GET" && listed || pathname.endsWith("/info");
    return Response.json(list ? [hostile(execution)] : hostile(execution));
  };
}

const MACHINE = ["machine", "create", "-f", "-", "--iso", "a.iso"];
const COMMANDS: readonly (readonly string[])[] = [
  ["status"],
  ["job", "list"],
  ["job", "get", UUID],
  ["job", "info", UUID],
  ["job", "cancel", UUID],
  ["job", "cancel", "--execution", "queued", "--yes"],
  ["job", "retry", UUID],
  ["job", "retry", UUID, "--from", EVIL, "--wait"],
  ["job", "retry", "--workflow", EVIL, "--yes"],
  ["job", "run", UUID],
  ["job", "run", UUID, "--follow"],
  ["job", "wait", UUID],
  ["job", "tail", UUID],
  ["workflow", "list"],
  ["workflow", "get", UUID],
  ["machine", "list"],
  ["machine", "get", UUID],
  ["machine", "vnc", UUID],
  MACHINE,
  [...MACHINE, "--follow"],
  ["image", "list"],
  ["image", "list", "x"],
  ["image", "list", "x/y"],
  ["image", "show", "x/y"],
  ["image", "status"],
  ["image", "sync", "--wait"],
  ["api", "GET", "/jobs"],
];

for (const execution of ["success", "failure", "canceled"]) {
  Deno.test(`no command writes control characters that the agent of a job of ${execution} sent`, async () => {
    await withServer(answersOf(execution), async (url) => {
      for (const command of COMMANDS) {
        for (const json of [[], ["--json"]]) {
          const screen = screenFor(url, { input: "{}" });
          await screen.run(...command, ...json);
          const said = screen.out() + screen.err();
          assert(said !== "", command.join(" "));
          assertEquals(DANGEROUS.exec(said), null, `${command.join(" ")}: ${JSON.stringify(said)}`);
          if (json.length === 0 || screen.out() === "") continue;
          const isStream = command.includes("tail") || command.includes("--follow");
          const documents = isStream ? screen.out().trimEnd().split("\n") : [screen.out()];
          for (const text of documents) JSON.parse(text);
        }
      }
    });
  });
}

const AWAY = { code: "ServiceUnavailable", error_code: "overloaded" };
const DATABASE_AWAY = {
  ...AWAY,
  message: "Cannot reach the database: it is off",
  about: { kind: "database" },
};
for (
  const [what, busy, said] of [
    ["agent", "busy", "the agent does not answer"],
    ["database", JSON.stringify(DATABASE_AWAY), DATABASE_AWAY.message],
  ] as const
) {
  Deno.test(`--follow says once that the ${what} is away, however long that takes`, () =>
    followsThrough(busy, `${said}; trying again\n`));
}

/** Waits for a job through three answers of 503. */
async function followsThrough(busy: string, said: string): Promise<void> {
  let calls = 0;
  const job = { uuid: UUID, execution: "success", chain: [], chain_results: [] };
  const answer = ({ url }: Request) => {
    calls += 1;
    // The command finds the job, then the agent is away for three calls.
    if (calls > 1 && calls <= 4) return new Response(busy, { status: 503 });
    if (new URL(url).pathname === "/agent/v1/events") return noEvents("1");
    return Response.json(new URL(url).pathname.endsWith("/info") ? [] : job);
  };
  await withServer(answer, async (url) => {
    const screen = screenFor(url);
    assertEquals(await screen.run("job", "wait", UUID), 0);
    assertEquals(screen.err(), said);
  });
}

Deno.test("a name that is too long exits 2, and is not repeated", async () => {
  const screen = screenFor("http://127.0.0.1:1");
  assertEquals(await screen.run("job", "run", "a".repeat(100_000)), 2);
  assertStringIncludes(
    screen.err(),
    "Cannot call a path of 100016 characters, expected 16384 at most\n",
  );
  assert(screen.err().length < 300);
});
