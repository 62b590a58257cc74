/**
 * Prepares embeddings for storage. We scale them to unit length, because then the numbers of every model fit into half
 * precision.
 */
import { toSql } from 'pgvector';

/** An embedding and its model. Vectors of different models can't be compared. */
export interface TextVector {
  readonly model: string;
  readonly values: readonly number[];
}

/** The maximum number of dimensions that pgvector can store. */
const maxDimensions = 16_000;

/**
 * Scales a vector to unit length. Returns null if it's empty, too long or all zero, or contains anything but finite
 * numbers.
 */
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

export function toVectorParameter(values: readonly number[] | null): string | null {
  return toSql(values && [...values]);
}
