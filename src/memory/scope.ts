/**
 * Whose memories are read (specification 4.8 rule 6): with a subject that subject's and those of the whole project; without one those of
 * the whole project and of every end user.
 */

/** A condition on the column `column`; `parameter` is the subject as a parameter of the query, null for none. */
export function inScope(column: string, parameter: string): string {
  return `(${parameter}::text is null or ${column} is null or ${column} = ${parameter}::text)`;
}
