// deno-lint-ignore-file
// ends: success ["TypeError","TypeError","TypeError","TypeError",0]
((job, cb) => {
  const functions = [vmadm.create, setTimeout, log.info, cb];
  let foreign = 0;
  const told = functions.map((own) => {
    try {
      return typeof Reflect.construct(own, [], Object);
    } catch (error) {
      return error instanceof TypeError ? error.name : "foreign";
    }
  });
  for (const own of functions) {
    for (const key of Reflect.ownKeys(own)) {
      const { value } = Object.getOwnPropertyDescriptor(own, key);
      if (typeof value === "object" && !(value instanceof Object)) foreign += 1;
    }
    if ("prototype" in own) foreign += 1;
  }
  cb(null, [...told, foreign]);
});
