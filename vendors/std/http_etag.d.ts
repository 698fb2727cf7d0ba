export interface ETagOptions {
  algorithm?: AlgorithmIdentifier;
  weak?: boolean;
}
/** A strong entity tag of these bytes, quotes included. */
export declare function eTag(entity: string | Uint8Array, options?: ETagOptions): Promise<string>;
/** Whether a request with this If-Match may go on. */
export declare function ifMatch(value: string | null, etag: string | undefined): boolean;
/** False when this If-None-Match names the entity tag, so that the answer is 304. */
export declare function ifNoneMatch(value: string | null, etag: string | undefined): boolean;
