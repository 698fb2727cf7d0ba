// deno-lint-ignore-file
// ends: timeout
(() => {
  for (;;);
});
