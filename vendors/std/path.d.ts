// Types of the part of the path package that this project uses; the package ships none.
export interface ParsedPath {
  root: string;
  dir: string;
  base: string;
  ext: string;
  name: string;
}
export declare function basename(path: string | URL, suffix?: string): string;
export declare function dirname(path: string | URL): string;
export declare function extname(path: string | URL): string;
export declare function fromFileUrl(url: string | URL): string;
export declare function isAbsolute(path: string): boolean;
export declare function join(path: string | URL, ...paths: string[]): string;
export declare function normalize(path: string | URL): string;
export declare function parse(path: string): ParsedPath;
export declare function relative(from: string, to: string): string;
export declare function resolve(...pathSegments: string[]): string;
export declare function toFileUrl(path: string): URL;
