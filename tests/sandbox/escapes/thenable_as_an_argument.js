// deno-lint-ignore-file
// ends: success [0,[{"a":1}]]
(async (job, cb) => {
  let called = 0;
  const thenable = {
    a: 1,
    then(resolve) {
      called += 1;
      resolve();
    },
  };
  const answer = await vmadm.create(thenable);
  cb(null, [called, answer.args]);
});
