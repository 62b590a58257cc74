/** Vectors of texts as the database keeps them: half precision, of length 1, so that no model's numbers are out of its range. */

/** The vector of a text and the model it is of; vectors of different models have nothing to do with each other. */
export interface TextVector {
  readonly model: string;
  readonly values: readonly number[];
}

/** More than pgvector keeps; models have a few thousand. */
const maxDimensions = 16_000;

/** The vector made as long as 1; null for what is no direction: empty, not of numbers, all zero. */
export function toUnitVector(values: readonly unknown[]): number[] | null {
  if (values.length === 0 || values.length > maxDimensions) return null;
  let squares = 0;
  for (const value of values) {
    if (typeof value !== 'number' || !Number.isFinite(value)) return null;
    squares += value * value;
  }
  const length = Math.sqrt(squares);
  if (length === 0 || !Number.isFinite(length)) return null;
  return values.map((value) => Number(value) / length);
}

/** As pgvector reads it. */
export function toVectorLiteral(values: readonly number[]): string {
  return `[${values.join(',')}]`;
}
