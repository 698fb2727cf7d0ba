// deno-lint-ignore-file
// ends: failure /memory|allocation failed/
(() => {
  const hoard = [];
  for (;;) hoard.push(new Uint8Array(16e6).fill(1));
});
