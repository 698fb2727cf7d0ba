// @ts-types="./toml_parse.d.ts"
export * from "npm:deno-std@1.4.0/toml/parse.js";
