// deno-lint-ignore-file
// ends: timeout
(async () => ({
  then() {
    // Neither keeps nor breaks it.
  },
}));
