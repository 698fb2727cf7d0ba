// Runs a function over a list, so many at a time.

/**
 * Calls `run` for every item, at most `limit` of them at once. After a failure no further item is
 * begun, those under way are waited for, and the first failure is thrown.
 */
export async function mapLimited<T>(
  items: readonly T[],
  limit: number,
  run: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length && failures.length === 0) {
      const item = items[next++] as T;
      try {
        await run(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}
