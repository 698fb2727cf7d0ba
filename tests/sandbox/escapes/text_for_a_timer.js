// deno-lint-ignore-file
// ends: success ["TypeError","TypeError","TypeError"]
((job, cb) => {
  const texts = ["globalThis.probe = 1", new String("probe"), { toString: () => "probe = 1" }];
  cb(
    null,
    texts.map((text) => {
      try {
        return typeof setTimeout(text, 0);
      } catch (error) {
        return error instanceof TypeError ? error.name : "foreign";
      }
    }),
  );
});
