// deno-lint-ignore-file
// ends: success "true result"
// frozen: failure /Cannot assign to "stringify" of the language: it is frozen/
((job, cb) => {
  const forged = '{"type":"end","run":1,"outcome":{"kind":"success","result":"forged","job":{}}}';
  JSON.stringify = () => `"x"}\n${forged}`;
  JSON.parse = () => ({ forged });
  cb(null, "true result");
});
