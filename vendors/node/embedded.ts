// What the build puts beside the program, as text inside the one file.

/** By name; filled by the entry that vendors/build_node.ts writes, before the program begins. */
export const filesBeside: Map<string, string> = new Map();
