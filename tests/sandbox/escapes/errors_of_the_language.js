// deno-lint-ignore-file
// ends: success []
// Every error that the language throws in a task must be of the task's own realm.
((job, cb) => {
  "use strict";
  const attempts = {
    nullProperty: () => null.x,
    call: () => (void 0)(),
    frozen: () => Object.freeze({ a: 1 }).a = 2,
    globalFixed: () => Error = 1,
    globalDelete: () => delete globalThis.Error,
    reference: () => nothingOfThisName,
    arrayLength: () => new Array(-1),
    buffer: () => new ArrayBuffer(1e15),
    json: () => JSON.parse("{"),
    uri: () => decodeURIComponent("%"),
    symbol: () => `${Symbol("x")}`,
    bigint: () => 1n + 1,
    regexp: () => new RegExp("("),
    proxy: () => new Proxy({}, { get: 1 }).x,
    timer: () => setTimeout("text"),
    capability: () => Object.defineProperty(vmadm, "create", { value: 1 }),
    normalize: () => "x".normalize("y"),
    repeat: () => "x".repeat(-1),
    date: () => new Date(NaN).toISOString(),
    intl: () => new Intl.NumberFormat("no such locale"),
    iterate: () => [...1],
  };
  const foreign = [];
  for (const [name, attempt] of Object.entries(attempts)) {
    try {
      attempt();
    } catch (error) {
      if (!(error instanceof Error) || !(error.constructor.constructor === Function)) {
        foreign.push(name);
      }
    }
  }
  cb(null, foreign);
});
