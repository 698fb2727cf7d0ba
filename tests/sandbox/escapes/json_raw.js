// deno-lint-ignore-file
// ends: success ["forged",-0.5,{"n":12345}]
// Raw JSON is the one text that JSON.stringify() copies: it must not end a line or a value.
((job, cb) => {
  const refused = ["{}", "[1]", "1,2", "1}", '"x"\n', "\n1", "1\u2028", ""];
  const allowed = refused.filter((text) => {
    try {
      JSON.rawJSON(text);
      return true;
    } catch (error) {
      return !(error instanceof SyntaxError);
    }
  });
  if (allowed.length > 0) return cb(allowed.join());
  cb(null, [JSON.rawJSON('"forged"'), JSON.rawJSON("-0.5"), { n: JSON.rawJSON("12345") }]);
});
