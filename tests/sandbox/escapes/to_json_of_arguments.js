// deno-lint-ignore-file
// ends: failure /GuestLost: Task "prepare" was lost: its process .*args is not a list/
// frozen: success {"name":"vmadm.create","args":[{"a":1}]}
// Arguments that are no list are not a message: the guest is not believed any more.
(async (job, cb) => {
  Array.prototype.toJSON = () => ({ length: 1, 0: "forged" });
  cb(null, await vmadm.create({ a: 1 }));
});
