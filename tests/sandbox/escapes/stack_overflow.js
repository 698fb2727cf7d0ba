// deno-lint-ignore-file
// ends: failure /RangeError: Maximum call stack size exceeded/
(() => {
  const dive = () => dive();
  dive();
});
