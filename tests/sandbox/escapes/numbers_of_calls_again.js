// deno-lint-ignore-file
// ends: success ["vmadm.get","refused"]
// frozen: failure /Cannot assign to "set" of the language: it is frozen/
// Entries under other numbers: an answer still goes to whom it belongs.
(async (job, cb) => {
  const { set } = Map.prototype;
  Map.prototype.set = function (key, value) {
    return Reflect.apply(set, this, [key, value]) && Reflect.apply(set, this, [key + 1, value]);
  };
  const refused = vmadm.delete("x").then(() => "answered", () => "refused");
  const { name } = await vmadm.get("x");
  cb(null, [name, await refused]);
});
