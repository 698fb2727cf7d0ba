/** Compares two buffers of equal length in constant time. @throws {TypeError} when the lengths differ. */
export declare function timingSafeEqual(
  a: ArrayBufferView | ArrayBufferLike,
  b: ArrayBufferView | ArrayBufferLike,
): boolean;
