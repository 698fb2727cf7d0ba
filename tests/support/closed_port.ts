// An address at which nobody listens.

/**
 * Below the ports that the system gives out, and none of those that fetch() refuses to ask. A port that
 * was just let go may be given to another test that runs at the same time.
 */
export const CLOSED_ADDRESS = "127.0.0.1:1024";
