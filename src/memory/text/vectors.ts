/** Embeddings as stored: unit length and half precision, so that the numbers of every model are in range. */
import { toSql } from 'pgvector';

/** An embedding and its model; vectors of different models are not comparable. */
export interface TextVector {
  readonly model: string;
  readonly values: readonly number[];
}

/** pgvector's limit for a stored vector. */
const maxDimensions = 16_000;

/** Scales to length 1. Null when the vector has no direction: empty, not finite numbers, or all zero. */
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

/** A vector as the parameter of a statement: `$1::halfvec`. */
export function toVectorParameter(values: readonly number[] | null): string | null {
  return toSql(values && [...values]);
}
