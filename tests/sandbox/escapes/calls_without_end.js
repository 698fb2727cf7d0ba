// deno-lint-ignore-file
// ends: failure /32 calls are under way/
(async () => {
  await Promise.all(Array.from({ length: 40 }, () => vnc.wait("never")));
});
