// deno-lint-ignore-file
// ends: success ["TypeError","TypeError","TypeError",true]
// Getters and methods of the language, borrowed for objects that the agent made in the realm.
((job, cb) => {
  const size = Object.getOwnPropertyDescriptor(Map.prototype, "size").get;
  const attempts = [
    () => Reflect.apply(size, vmadm, []),
    () => Reflect.apply(Promise.prototype.then, vmadm.create, []),
    () => Reflect.apply(Map.prototype.get, job.log, ["x"]),
  ];
  const told = attempts.map((attempt) => {
    try {
      return typeof attempt();
    } catch (error) {
      return error instanceof TypeError ? error.name : "foreign";
    }
  });
  const getter = Object.getOwnPropertyDescriptor(Object.prototype, "__proto__").get;
  cb(null, [
    ...told,
    [vmadm, job, cb, log].every((own) =>
      getter.call(own) instanceof Object ||
      getter.call(own) === Object.prototype
    ),
  ]);
});
