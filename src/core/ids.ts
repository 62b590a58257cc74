/** Ids are UUIDv7 (RFC 9562): they sort by time, and call rows are partitioned by that. */
import { v7, validate } from 'uuid';

/** A new id whose time part is `epochMs`. */
export function newId(epochMs: number): string {
  return v7({ msecs: epochMs });
}

export function isUuid(text: string): boolean {
  return validate(text);
}

/** The smallest UUIDv7 of an instant: a lower bound for ids made then or later. */
export function firstIdOf(epochMs: number): string {
  const hex = Math.max(0, epochMs).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-7000-8000-000000000000`;
}
