/**
 * SQL conditions on the subject of a row. A request with a subject reads that subject's rows and the project-wide rows.
 * A request without a subject reads the whole project (docs/api/reference.md#memory-rules).
 */

/** A sentinel subject that only matches project-wide rows, because no real subject is empty. */
export const projectWideOnly = '';

/**
 * Returns an SQL condition for the rows that a request can see. `parameter` is the placeholder for the request's
 * subject, which may be null.
 */
export function inScope(column: string, parameter: string): string {
  return `(${parameter}::text is null or ${column} is null or ${column} = ${parameter}::text)`;
}

/**
 * Returns an SQL condition for rows with the same subject, or for rows without a subject if the parameter is null. `is
 * not distinct from` would be shorter, but it can't use an index.
 */
export function hasSameScope(column: string, parameter: string): string {
  return `(${column} = ${parameter}::text or (${parameter}::text is null and ${column} is null))`;
}
