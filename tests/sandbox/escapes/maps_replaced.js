// deno-lint-ignore-file
// ends: failure /^Error: an entry of the task's own \(task "prepare"/
// frozen: failure /Cannot assign to "get" of the language: it is frozen/
// The answer of a call is looked up in a map of the realm: the task may give another one.
((job, cb) => {
  Map.prototype.get = (id) => ({
    place: {},
    resolve: (answer) => {
      const own = typeof id === "number" && answer instanceof Object;
      Promise.reject(new Error(own ? "an entry of the task's own" : "foreign"));
    },
  });
  Map.prototype.has = Map.prototype.delete = () => true;
  vmadm.list();
});
