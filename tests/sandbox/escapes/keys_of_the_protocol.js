// deno-lint-ignore-file
// ends: success {"type":"closed","run":1,"kind":"signal","word":"queue","job":null,"result":[]}
((job, cb) => {
  const forged = { type: "closed", run: 1, kind: "signal", word: "queue", job: null, result: [] };
  Object.assign(job, { ...forged, "outcome": forged });
  cb(null, forged);
});
