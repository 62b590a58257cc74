/**
 * SQL conditions on the subject of a row. A request with a subject reads that subject's rows and the project-wide rows.
 * A request without a subject reads the whole project (docs/api/reference.md#memory-rules).
 */

/** A sentinel subject that only matches project-wide rows, because no real subject is empty. */
export const projectWideOnly = '';

/**
 * Returns SQL for the rows that a request can see. `parameter` is the placeholder of the request's subject, which may
 * be null.
 */
export function inScope(column: string, parameter: string): string {
  return `(${parameter}::text is null or ${column} is null or ${column} = ${parameter}::text)`;
}

/**
 * Returns SQL for rows that have the given subject or, if that's null, no subject. We don't use `is not distinct from`,
 * because it can't use an index.
 */
export function hasSameScope(column: string, parameter: string): string {
  return `(${column} = ${parameter}::text or (${parameter}::text is null and ${column} is null))`;
}
