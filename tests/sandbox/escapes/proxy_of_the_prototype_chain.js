// deno-lint-ignore-file
// ends: failure /^Error: told/
// A rejected promise whose prototype is a proxy: what asks for its kind runs code of the task.
((job, cb) => {
  const promise = Promise.reject(new Error("never"));
  promise.catch(() => {});
  let asked = "";
  const own = new Proxy(Promise.prototype, {
    getPrototypeOf(target) {
      asked += target === Promise.prototype ? "" : "foreign";
      return Reflect.getPrototypeOf(target);
    },
  });
  const second = Promise.reject(new Error("told"));
  Object.setPrototypeOf(second, own);
});
