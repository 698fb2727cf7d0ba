// deno-lint-ignore-file
// ends: failure /1000 timers of this task are pending/
(() => {
  for (;;) setTimeout(() => {}, 1e6);
});
