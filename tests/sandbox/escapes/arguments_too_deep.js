// deno-lint-ignore-file
// ends: success [true,"invalid_argument"]
(async (job, cb) => {
  let deep = {};
  for (let depth = 0; depth < 150; depth++) deep = [deep];
  const error = await vmadm.create(deep).catch((error) => error);
  log.info("deep", { deep });
  cb(null, [error instanceof Error, error.code]);
});
