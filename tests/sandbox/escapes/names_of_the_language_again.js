// Objects have properties of their own by the names that the language has above them.
// ends: success [[9],[7],[5],[3],"mine","ours",4,0.5,"t",[1,2],true,"copied",["call","Mine: words"]]
((_job, cb) => {
  const list = [1];
  list[Symbol.iterator] = function* () {
    yield 9;
  };
  class List extends Array {}
  List.prototype[Symbol.iterator] = function* () {
    yield 7;
  };
  List.from = () => "mine";
  function* make() {}
  make.prototype[Symbol.iterator] = () => [5].values();
  const map = new Map([[1, 2]]);
  map[Symbol.iterator] = () => [3].values();
  class Later extends Promise {}
  Later.resolve = () => "ours";
  class Day extends Date {}
  Day.now = () => 4;
  const sums = Object.create(Math);
  sums.random = () => 0.5;
  const named = {};
  named.toString = () => "t";
  const bytes = new Uint8Array(1);
  bytes.set = 1;
  bytes.slice = 2;
  // What is there already may be assigned again.
  Array.prototype.map = Array.prototype.map || null;
  Object.assign = Object.assign || null;
  const copy = {};
  const at = Object.getOwnPropertyDescriptor(Array.prototype, "at");
  Object.defineProperty(copy, "at", { ...at, configurable: true });
  copy.at = "copied";
  const call = () => {};
  call.call = "call";
  const error = new Error("words");
  error.name = "Mine";
  cb(null, [
    [...list],
    [...new List(1)],
    [...make()],
    [...map],
    List.from(),
    Later.resolve(),
    Day.now(),
    sums.random(),
    `${named}`,
    [bytes.set, bytes.slice],
    Math.random() !== 0.5 || Math.random() !== 0.5,
    copy.at,
    [call.call, `${error}`],
  ]);
});
