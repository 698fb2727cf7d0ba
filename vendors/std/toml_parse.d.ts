/** The table that a TOML text describes. @throws {SyntaxError} when the text is not TOML. */
export declare function parse(tomlString: string): Record<string, unknown>;
