/** Computes a password hash. Runs in the low-priority thread for passwords. */
import { type Argon2Parameters, argon2Sync } from 'node:crypto';

export function deriveHash(parameters: Argon2Parameters): { readonly hash: Uint8Array } {
  return { hash: argon2Sync('argon2id', parameters) };
}
