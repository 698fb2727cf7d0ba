// deno-lint-ignore-file
// ends: failure /Code generation from strings disallowed/
(async (job, cb) => {
  const error = await vmadm.delete("refused").catch((error) => error);
  cb(null, error.constructor.constructor("return typeof Deno")());
});
