// The state of one execution inside its realm, and the two ends between a realm and its guest.

/** The requests of a realm to its guest. */
type HostOp = "call" | "log" | "timer" | "untimer" | "quiet" | "end";

/** The only function of the guest that a realm holds; the task never sees it. */
export type RealmHost = (op: HostOp, id: number, name: string, text: string) => void;

/** A realm with its language, in which tasks can be opened. */
export interface RealmSpace {
  /** The global names of a shared realm; the guest puts them behind its global object. */
  readonly language: Readonly<Record<string, unknown>>;
  /** Opens an execution; its requests go to `host`. */
  open(host: RealmHost): RealmPort;
  /**
   * Takes off what a task has added to the global object of a shared realm.
   * @returns false when the realm is not as it was before the first task
   */
  restore(): boolean;
}

/** The functions of a realm that a guest calls. Nothing a task does makes one of them throw. */
export interface RealmPort {
  /** What a task gets besides the language, by name. */
  readonly given: Readonly<Record<string, unknown>>;
  /** Makes one of these for the task. */
  give(name: string): unknown;
  /**
   * Runs the task that `define` returns. It is called with the values of `names`, which are separated
   * by spaces. `file` is the task's name in stacks; `engineFields` are the names
   * of job fields that are not sent back, separated by spaces; `jobText` and `errorText` are JSON.
   */
  start(
    define: (...values: unknown[]) => unknown,
    names: string,
    kind: "body" | "fallback",
    name: string,
    file: string,
    engineFields: string,
    jobText: string,
    errorText: string,
  ): void;
  reply(call: number, ok: boolean, text: string, code: string): void;
  fire(timer: number): void;
  /** Called when nothing has run since the realm sent `quiet`. */
  settle(): void;
  rejected(reason: unknown): void;
}

/** A frame of a stack as V8 describes it. */
export interface StackPlace {
  getFileName(): string | null | undefined;
  getFunctionName(): string | null;
  getLineNumber(): number | null;
  getColumnNumber(): number | null;
  isAsync(): boolean;
}

/** The names and limits that a realm works with. */
export interface RealmSettings {
  /** Whether the realm is closed off: false where tests try the other layers without this one. */
  readonly rules: boolean;
  /** Whether many tasks run in the realm, one after the other: it is frozen, and has rules. */
  readonly shared: boolean;
  /** Verbs by group; a group without verbs is itself a function. */
  readonly capabilities: Readonly<Record<string, readonly string[]>>;
  readonly signals: readonly string[];
  readonly resultCharsMax: number;
  readonly jobCharsMax: number;
  readonly errorCharsMax: number;
  readonly argsCharsMax: number;
  readonly argsMax: number;
  readonly callsInFlightMax: number;
  readonly taskLogLinesMax: number;
  readonly taskLogCharsMax: number;
  readonly timersMax: number;
  /** Frames that V8 keeps of a stack unless a task says otherwise. */
  readonly stackFrames: number;
  /** Names that a task may add to the global object of a shared realm and leave it in use. */
  readonly addedNamesMax: number;
}

/** A capability call that has no answer yet. */
interface PendingCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  /** The stack of the call, so that a refusal can name its line. */
  readonly place: { readonly stack?: string };
}

/** What all executions of a realm share. */
export interface RealmPlace {
  /** File name of the source that runs now, in stacks. */
  file: string;
}

/** The state of one execution. */
export interface Realm {
  readonly send: RealmHost;
  readonly settings: RealmSettings;
  // Taken before the task runs, since the task may replace the built-ins.
  readonly parse: (text: string) => unknown;
  readonly stringify: (value: unknown) => string | undefined;
  readonly defineProperties: typeof Object.defineProperties;
  readonly calls: Map<number, PendingCall>;
  readonly timers: Map<number, () => void>;
  lastId: number;
  logLines: number;
  name: string;
  /** File name of its source in stacks. */
  file: string;
  job: Record<string, unknown>;
  /** Names of job fields that are not sent back. */
  engineFields: readonly string[];
  ended: boolean;
  /** The promise of an async body has been kept. */
  returned: boolean;
}
