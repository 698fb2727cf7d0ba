// What a runtime other than Deno does its own way. The program asks for these things by what they do, in the
// one place that needs each; on Deno there is nothing here.

/** Where such a runtime leaves its description, before the program begins. */
export const NODE_RUNTIME: unique symbol = Symbol.for("zonewright.runtime");

/** One try of a guest, as wall/protocol.ts has it. */
interface RuntimeCheck {
  readonly check: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** A runtime other than Deno, with this program in one file. */
export interface NodeRuntime {
  readonly name: "node";
  /** As it says of itself, like 24.18.0. */
  readonly version: string;
  readonly program: string;
  /** Path of the file that holds this program. */
  readonly file: string;
  /** Options of the runtime for the agent, and for what it shuts in. */
  readonly options: Readonly<Record<"agent" | "guest" | "decoder", readonly string[]>>;
  /** Data segment of a fresh process, bytes. */
  readonly reservedDataBytes: number;
  /** Names of the checks that it cannot pass by itself: the kernel may, and doctor says so. */
  readonly cannotRefuse: readonly string[];
  /** Gives up what it can, unless `keep`, and tries everything. */
  readonly revoke: (keep: boolean) => Promise<readonly RuntimeCheck[]>;
  /** The text of a file that the build put beside the program: build.json and ui.json. */
  readonly beside: (name: string) => string;
  /** Serves HTTP on one connection; its type is ServeConnection in http/listen/. */
  readonly serveConnection: unknown;
}

/** The other runtime; undefined on Deno. */
export function nodeRuntime(): NodeRuntime | undefined {
  // Set by vendors/node/ alone, before anything else was loaded.
  return Reflect.get(globalThis, NODE_RUNTIME) as NodeRuntime | undefined;
}

/**
 * Reads a file that the build put beside the program.
 * @param source where it lies when the program runs from source
 */
export async function readBeside(name: string, source: URL): Promise<string> {
  return nodeRuntime()?.beside(name) ?? await Deno.readTextFile(source);
}

/** Name and version of the runtime. */
export function runtimeVersion(): { readonly name: "deno" | "node"; readonly version: string } {
  return nodeRuntime() ?? { name: "deno", version: Deno.version.deno };
}
