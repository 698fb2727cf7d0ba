// Which jobs hold their target and their locks: those that are not final, and those that are
// canceled and still undo what they did.

/** The condition of the schema's partial indexes, word for word, and of the statements that use them. */
export const HOLDS_TARGET = `(execution IN ('queued', 'running', 'waiting')
    OR (execution = 'canceled' AND (runner_id IS NOT NULL OR claimable_at IS NOT NULL)))`;
