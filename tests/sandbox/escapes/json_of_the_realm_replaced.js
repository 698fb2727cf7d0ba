// deno-lint-ignore-file
// ends: success {"name":"vmadm.get","args":[{"a":1}]}
(async (job, cb) => {
  const lie = () => '{"forged":true}';
  Object.defineProperty(globalThis, "JSON", { get: () => ({ parse: lie, stringify: lie }) });
  console.log("%j", {});
  cb(null, await vmadm.get({ a: 1 }));
});
