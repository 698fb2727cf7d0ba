// What happened to one thing, in order, kept so that a broken promise can be reported with everything
// that led to it.

/** Events kept of one thing. */
const EVENTS_MAX = 400;
/** Lines of the log that are reported with a broken promise. */
const LOG_LINES_MAX = 40;

/** A promise that the agent broke, with the history of the thing it broke it for. */
export class BrokenPromise extends Error {
  constructor(what: string, rules: readonly string[], history: readonly string[]) {
    const lines = [`${what}: ${rules.join("; ")}`, ...history.map((event) => `    ${event}`)];
    super(lines.join("\n"));
    this.name = "BrokenPromise";
  }
}

/** The events of one thing. */
export class History {
  readonly #events: string[] = [];
  readonly #clock: () => string;

  /** @param clock tells when it is, in words */
  constructor(clock: () => string) {
    this.#clock = clock;
  }

  add(event: string): void {
    if (this.#events.length >= EVENTS_MAX) this.#events.splice(EVENTS_MAX / 2, 1);
    this.#events.push(`${this.#clock()} ${event}`);
  }

  get events(): readonly string[] {
    return this.#events;
  }

  /** @throws {BrokenPromise} when a rule is broken */
  expect(what: string, rules: readonly string[]): void {
    if (rules.length > 0) throw new BrokenPromise(what, rules, this.#events);
  }
}

/** Lets one after the other have a turn at the same thing. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(run: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(run);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

/** The error with what the last agent logged of the job that it is about. */
export function withLog(error: unknown, log: string | undefined): unknown {
  if (!(error instanceof Error) || log === undefined) return error;
  const uuid = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(error.message)?.[0];
  if (uuid === undefined) return error;
  const lines = log.split("\n").filter((line) => line.includes(uuid)).slice(-LOG_LINES_MAX);
  error.message += ["", "The last agent logged of it:", ...lines].join("\n    ");
  return error;
}
