// deno-lint-ignore-file
// ends: success ["\n{\"type\":\"closed\",\"run\":1}\n",true]
// frozen: failure /Cannot record the result: it holds a BigInt, expected a number or a text/
((job, cb) => {
  let refusal;
  try {
    JSON.stringify(1n);
  } catch (error) {
    refusal = error instanceof TypeError;
  }
  BigInt.prototype.toJSON = () => '\n{"type":"closed","run":1}\n';
  cb(null, [1n, refusal]);
});
