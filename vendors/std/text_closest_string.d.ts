/** The word of the list that differs least from the given one. @throws {TypeError} when the list is empty. */
export declare function closestString(
  givenWord: string,
  possibleWords: readonly string[],
  options?: { caseSensitive?: boolean; compareFn?: (one: string, other: string) => number },
): string;
