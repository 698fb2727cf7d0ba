// deno-lint-ignore-file
// ends: success ["default","string"]
// frozen: failure /Cannot define property Symbol\(Symbol\.toPrimitive\), object is not extensible/
((job, cb) => {
  const hints = new Set();
  const value = function () {};
  value[Symbol.toPrimitive] = (hint) => {
    hints.add(hint);
    return "\u2028\n";
  };
  Object.defineProperty(String.prototype, Symbol.toPrimitive, { value: () => "forged" });
  `${value}` + (value + "");
  log.warn(value, value);
  console.error(value, [value]);
  job.log.info(value);
  cb(null, [...hints].sort());
});
