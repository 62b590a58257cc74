/**
 * Whose memories are read (specification 4.8 rule 6): with a subject that subject's and those of the whole project; without one those of
 * the whole project and of every end user.
 */

/** A condition on the column `column`; `parameter` is the subject as a parameter of the query, null for none. */
export function inScope(column: string, parameter: string): string {
  return `(${parameter}::text is null or ${column} is null or ${column} = ${parameter}::text)`;
}

/** Only what is about that subject, or, where it is null, about the whole project. Indexes serve this; they do not serve `is not distinct from`. */
export function hasSameScope(column: string, parameter: string): string {
  return `(${column} = ${parameter}::text or (${parameter}::text is null and ${column} is null))`;
}
