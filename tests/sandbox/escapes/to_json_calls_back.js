// deno-lint-ignore-file
// ends: success "inner"
((job, cb) => {
  const toJSON = () => {
    cb(null, "inner");
    return "outer";
  };
  cb(null, { toJSON });
});
