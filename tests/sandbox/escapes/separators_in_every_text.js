// deno-lint-ignore-file
// ends: success [["a\tb","\u2028\u2029","\ud800","\udfff\ud800","\u0000\r\n","\ufeff"],"a\tb"]
// Tabs and line breaks frame the messages of both directions.
(async (job, cb) => {
  const texts = ["a\tb", "\u2028\u2029", "\ud800", "\udfff\ud800", "\0\r\n", "\ufeff"];
  for (const text of texts) {
    log.info(text, { [text]: text });
    console.error(text);
  }
  const { args } = await vmadm.get(...texts);
  cb(null, [args, args[0]]);
});
