// deno-lint-ignore-file
// ends: failure /^Error: from the getter \(task "prepare", line 5\)$/
(() => ({
  get then() {
    throw new Error("from the getter");
  },
}));
