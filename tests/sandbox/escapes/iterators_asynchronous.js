// deno-lint-ignore-file
// ends: success ["vmadm.list",[]]
// frozen: failure /is not async iterable/
(async (job, cb) => {
  const foreign = [];
  Object.prototype[Symbol.asyncIterator] = async function* () {
    if (!(this instanceof Object)) foreign.push(typeof this);
    yield await this;
  };
  for await (const answer of vmadm.list()) {
    if (!(answer instanceof Object)) foreign.push(typeof answer);
    cb(null, [answer.name, foreign]);
  }
});
