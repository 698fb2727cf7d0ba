// deno-lint-ignore-file
// ends: failure /memory|Invalid string length/
(() => {
  let text = "x";
  for (;;) text = JSON.stringify(text + text);
});
