// The version of the agent. Here and in deno.json; a test compares them.

/** Semantic version of the command line and of the HTTP interface under /agent/v1. */
export const VERSION = "0.1.0";
