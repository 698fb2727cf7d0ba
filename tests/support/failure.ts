// What a test that fails says besides its error, so that it is understood without another run: the last lines that
// its agents have logged, and what its pages showed. The end of a run of tests is often all that is kept of it.

import { AsyncLocalStorage } from "node:async_hooks";

/** What something was doing that a test has started. */
type Account = () => string;

const accounts = new AsyncLocalStorage<Account[]>();
/** Characters of an account; it has one line, or a few. */
const ACCOUNT_CHARACTERS = 3_000;
/** Lines of a log that are shown: the last ones, and the last ones of those that warn. */
const LOG_LINES = 8;
const WARNINGS = 4;
/** Characters of each. */
const LINE_CHARACTERS = 300;

/** Adds what the error of the test that runs is to say. */
export function onFailure(account: Account): void {
  accounts.getStore()?.push(account);
}

/** Runs a test, or a part of one; the error that ends the outermost part says what was added meanwhile. */
export async function explained<T>(run: () => Promise<T>): Promise<T> {
  if (accounts.getStore() !== undefined) return await run();
  const added: Account[] = [];
  try {
    return await accounts.run(added, run);
  } catch (error) {
    const words = added.map((account) => `\n${account().slice(0, ACCOUNT_CHARACTERS)}`).join("");
    if (error instanceof Error) error.message += words;
    throw error;
  }
}

/** What is worth a look in the log of an agent. */
export function endOfLog(log: string): string {
  const lines = log.trimEnd().split("\n");
  const last = lines.splice(-LOG_LINES);
  const warnings = lines.filter((line) => /"level":"(?:warn|error)"/.test(line)).slice(-WARNINGS);
  return [...warnings, ...last].map((line) => line.slice(0, LINE_CHARACTERS)).join("\n");
}
