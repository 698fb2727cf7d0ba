export interface FormatOptions {
  /** Powers of 1024 and units such as MiB. */
  binary?: boolean;
  bits?: boolean;
  signed?: boolean;
  locale?: boolean | string | string[];
  minimumFractionDigits?: number;
  maximumFractionDigits?: number;
}
/** A number of bytes as people read it. */
export declare function format(num: number, options?: FormatOptions): string;
