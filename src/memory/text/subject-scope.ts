/**
 * SQL conditions on the subject of a row. A request with a subject reads the rows of that subject and the project-wide
 * rows. A request without one reads the whole project (docs/api/reference.md#memory-rules).
 */

/** A sentinel subject that only matches project-wide rows, because no real subject is empty. */
export const projectWideOnly = '';

/** `parameter` contains the subject of the request, which may be null. */
export function inScope(column: string, parameter: string): string {
  return `(${parameter}::text is null or ${column} is null or ${column} = ${parameter}::text)`;
}

/**
 * Matches rows with the same subject, or without one if the parameter is null. We don't use `is not distinct from`,
 * because it can't use an index.
 */
export function hasSameScope(column: string, parameter: string): string {
  return `(${column} = ${parameter}::text or (${parameter}::text is null and ${column} is null))`;
}
