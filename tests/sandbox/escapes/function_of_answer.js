// deno-lint-ignore-file
// ends: failure /Code generation from strings disallowed/
(async (job, cb) => {
  const answer = await vmadm.get("x");
  cb(null, answer.constructor.constructor("return typeof Deno")());
});
