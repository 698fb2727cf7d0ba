// deno-lint-ignore-file
// ends: failure /arguments are over 524288 characters/
(async (job, cb) => {
  await vmadm.create({ text: "x".repeat(600_000) });
});
