// An agent with jobs of every kind, for tests of the console.

import {
  type AgentProcess,
  programOfRun,
  runProgram,
  startAgentProcess,
} from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import type { OpenBrowser } from "./browser.ts";

/** A workflow as a test sends it. */
type TestWorkflow = { name: string; chain: { name: string; body: string; retry?: number }[] };

export const FAILING: TestWorkflow = {
  name: "import-dataset",
  chain: [
    { name: "check", body: "function (job, cb) { cb(null, { free: 12 }); }" },
    {
      name: "copy",
      retry: 1,
      body: "function (job, cb) { log.warn('slow link'); cb('the checksum is wrong'); }",
    },
  ],
};
export const WAITING: TestWorkflow = {
  name: "approve-change",
  chain: [
    { name: "approval", body: "function (job, cb) { cb('wait'); }" },
    { name: "apply", body: "function (job, cb) { log.info('applied'); cb(); }" },
  ],
};

/** Makes a workflow and a job of it. @returns the job's uuid */
export async function newJob(agent: AgentProcess, workflow: TestWorkflow): Promise<string> {
  const made = await agent.post("/workflows", workflow);
  const job = await agent.post("/jobs", {
    workflow: made.body.uuid ?? "",
    password: "hunter2",
    target: `/${workflow.name}`,
  });
  return String(job.body.uuid);
}

/** Runs a test with an agent of its own, which ends after the pages. */
export async function withAgent(
  browser: OpenBrowser,
  run: (agent: AgentProcess) => Promise<void>,
  ...flags: string[]
): Promise<void> {
  await withFolder(async (folder) => {
    const args = flags.includes("--host") ? flags : ["--host", "simulated", ...flags];
    const agent = await startAgentProcess(programOfRun(), `${folder}/state`, args);
    try {
      await run(agent);
    } finally {
      await browser.closePages();
      await agent.stop();
    }
  });
}

/** Makes a token for an agent. @returns the token */
export async function newToken(
  { stateDir }: AgentProcess,
  name: string,
  scope: string,
): Promise<string> {
  const args = ["token", "create", "--name", name, "--scope", scope, "--state-dir", stateDir];
  return (await runProgram(programOfRun(), args)).stdout.trim();
}
