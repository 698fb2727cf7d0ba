// deno-lint-ignore-file
// ends: success ["vmadm.get","info"]
(async (job, cb) => {
  const receiver = new Proxy({}, {
    get() {
      throw new Error("asked");
    },
  });
  const got = await Reflect.apply(vmadm.get, receiver, ["x"]);
  const noted = await info.call(receiver, {});
  cb(null, [got.name, noted.name]);
});
