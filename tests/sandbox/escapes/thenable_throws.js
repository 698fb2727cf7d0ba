// deno-lint-ignore-file
// ends: failure /Error: from then \(task "prepare", line 5\)/
(() => ({
  then() {
    throw new Error("from then");
  },
}));
