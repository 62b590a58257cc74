/** Vectors of texts as the database keeps them: half precision, of length 1, so that no model's numbers are out of its range. */

/** The vector of a text and the model it is of; vectors of different models have nothing to do with each other. */
export interface TextVector {
  readonly model: string;
  readonly values: readonly number[];
}

/** As pgvector reads it. */
export function vectorLiteral(values: readonly number[]): string {
  return `[${values.join(',')}]`;
}
