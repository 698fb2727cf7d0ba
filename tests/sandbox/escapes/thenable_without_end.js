// deno-lint-ignore-file
// ends: timeout
(() => {
  const endless = () => ({ then: (resolve) => resolve(endless()) });
  return endless();
});
