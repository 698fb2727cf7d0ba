// Puts the pinned Nodes of the tests in place, once.

import { fromFileUrl } from "@std/path";
import { fetchPackageFile } from "./fetch_package.ts";
import { NODES, OLD_NODES } from "./pins.ts";

for (const node of [...OLD_NODES, ...NODES]) {
  const target = new URL(`../.toolchain/node/${node.version}/node`, import.meta.url);
  await fetchPackageFile(node, fromFileUrl(target));
}
