// deno-lint-ignore-file
// ends: success ["own","own"]
(async (job, cb) => {
  const seen = [];
  const look = (value) => seen.push(value instanceof Function ? "own" : "foreign");
  globalThis.Promise = function (executor) {
    look(executor);
    executor((answer) => cb(null, [...seen, answer instanceof Object ? "own" : "foreign"]), cb);
  };
  vmadm.list();
});
