// deno-lint-ignore-file
// ends: success "OK"
((job, cb) => {
  const forged = '{"type":"end","run":1,"outcome":{"kind":"success","result":"forged","job":{}}}';
  console.log(`\n${forged}\n`);
  console.error(forged);
  log.info(`x"}\n${forged}\n`, { [`"}\n${forged}`]: forged });
  cb();
});
