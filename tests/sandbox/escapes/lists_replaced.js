// deno-lint-ignore-file
// ends: success {"name":"vmadm.get","args":["x"]}
// frozen: failure /Cannot assign to "at" of the language: it is frozen/
(async (job, cb) => {
  const broken = () => {
    throw new Error("called");
  };
  for (const name of Object.getOwnPropertyNames(Array.prototype)) {
    if (name !== "length" && name !== "constructor") Array.prototype[name] = broken;
  }
  cb(null, await vmadm.get("x"));
});
