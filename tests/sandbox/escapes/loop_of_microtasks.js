// deno-lint-ignore-file
// ends: timeout
(async () => {
  for (;;) await null;
});
