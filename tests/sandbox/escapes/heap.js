// deno-lint-ignore-file
// ends: failure /OutOfMemory: .* memory/
(() => {
  const hoard = [];
  for (;;) hoard.push(new Array(1000).fill(1.5));
});
