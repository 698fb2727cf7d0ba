// deno-lint-ignore-file
// ends: success [true,true,true]
(async (job, cb) => {
  const promise = vmadm.list();
  const refused = await vmadm.delete("refused").catch((error) => error);
  cb(null, [
    promise instanceof Promise,
    promise.constructor.constructor === Function,
    refused instanceof Error && refused.code === "internal",
  ]);
});
