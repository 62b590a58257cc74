/**
 * SQL conditions on the subject of a row. A request with a subject reads that subject and the project-wide rows; one without reads the whole
 * project (docs/api/reference.md#memory-rules).
 */

/** The subject of a request that reads only project-wide rows: no subject is empty. */
export const projectWideOnly = '';

/** `parameter` holds the subject of the request, null for none. */
export function inScope(column: string, parameter: string): string {
  return `(${parameter}::text is null or ${column} is null or ${column} = ${parameter}::text)`;
}

/** The same subject, or both null. Written as two equalities because no index serves `is not distinct from`. */
export function hasSameScope(column: string, parameter: string): string {
  return `(${column} = ${parameter}::text or (${parameter}::text is null and ${column} is null))`;
}
