// deno-lint-ignore-file
// ends: success {"own":true}
// frozen: failure /Cannot assign to "Symbol\(Symbol.iterator\)" of the language: it is frozen/
(async (job, cb) => {
  const none = function* () {};
  Array.prototype[Symbol.iterator] = none;
  Map.prototype[Symbol.iterator] = none;
  Object.getPrototypeOf(new Map().keys()).next = () => ({ done: true });
  const answer = await vmadm.get("x");
  cb(null, { own: answer instanceof Object });
});
