// deno-lint-ignore-file
// ends: success ["RangeError","vmadm.get() takes at most 8 arguments"]
(async (job, cb) => {
  const { name, message } = await vmadm.get(...Array(9).fill(1)).catch((error) => error);
  cb(null, [name, message]);
});
