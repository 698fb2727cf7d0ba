// deno-lint-ignore-file
// ends: success ["object","undefined",true]
(async (job, cb) => {
  const reference = new WeakRef({ own: true });
  await sleep(1);
  const target = reference.deref();
  const kinds = Object.getOwnPropertyNames(WeakRef.prototype).sort().join();
  cb(null, [
    typeof reference,
    typeof reference.register,
    kinds === "constructor,deref" && target !== 1,
  ]);
});
