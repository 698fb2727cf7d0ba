// Types of the assertions that the tests use, written for this project; the package ships none.
export declare class AssertionError extends Error {}
export declare function assert(expr: unknown, msg?: string): asserts expr;
export declare function assertFalse(expr: unknown, msg?: string): asserts expr is false;
export declare function assertEquals<T>(actual: T, expected: T, msg?: string): void;
export declare function assertNotEquals<T>(actual: T, expected: T, msg?: string): void;
export declare function assertStrictEquals<T>(
  actual: unknown,
  expected: T,
  msg?: string,
): asserts actual is T;
export declare function assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T>;
export declare function assertGreater<T>(actual: T, expected: T, msg?: string): void;
export declare function assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void;
export declare function assertLess<T>(actual: T, expected: T, msg?: string): void;
export declare function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void;
export declare function assertStringIncludes(actual: string, expected: string, msg?: string): void;
export declare function assertArrayIncludes<T>(
  actual: ArrayLike<T>,
  expected: ArrayLike<T>,
  msg?: string,
): void;
export declare function assertMatch(actual: string, expected: RegExp, msg?: string): void;
export declare function assertNotMatch(actual: string, expected: RegExp, msg?: string): void;
export declare function assertObjectMatch(
  actual: Record<PropertyKey, unknown>,
  expected: Record<PropertyKey, unknown>,
  msg?: string,
): void;
// deno-lint-ignore no-explicit-any -- a constructor's parameters are of no interest to the assertion.
export declare function assertInstanceOf<T extends abstract new (...args: any[]) => any>(
  actual: unknown,
  expected: T,
  msg?: string,
): asserts actual is InstanceType<T>;
export declare function assertThrows(fn: () => unknown, msg?: string): unknown;
export declare function assertThrows<E extends Error>(
  fn: () => unknown,
  // deno-lint-ignore no-explicit-any -- as above.
  errorClass: abstract new (...args: any[]) => E,
  msgIncludes?: string,
  msg?: string,
): E;
export declare function assertRejects(
  fn: () => PromiseLike<unknown>,
  msg?: string,
): Promise<unknown>;
export declare function assertRejects<E extends Error>(
  fn: () => PromiseLike<unknown>,
  // deno-lint-ignore no-explicit-any -- as above.
  errorClass: abstract new (...args: any[]) => E,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export declare function fail(msg?: string): never;
export declare function unreachable(msg?: string): never;
