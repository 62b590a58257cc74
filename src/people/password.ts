/**
 * Hashes passwords with argon2id. We store hashes as PHC strings, which include the parameters, so that we can use
 * stronger ones for new hashes.
 */
import { type Argon2Parameters, randomBytes, timingSafeEqual } from 'node:crypto';
import { gatewayError } from '../core/errors.ts';
import { defineJob } from '../core/low-priority-thread.ts';
import { trimEnd } from '../core/trim.ts';
import type { deriveHash } from './password-job.ts';
import { createTaskCounter } from './task-counter.ts';

/**
 * OWASP's minimum for argon2id: 19 MiB, two passes, one lane. A hash takes tens of milliseconds, so it isn't computed
 * on the event loop.
 */
const cost = { memory: 19_456, passes: 2, parallelism: 1 };
const saltBytes = 16;
const hashBytes = 32;
const minLength = 12;
/** Normalizing a longer password would take too long. */
const maxLength = 256;

const deriveInThread = defineJob<typeof deriveHash>(new URL('./password-job.ts', import.meta.url).href, 'deriveHash', 'passwords');
/**
 * The number of hashes that may be waiting. They're computed one at a time, so the last one has to wait a few seconds,
 * or ten times as long if the CPU core is saturated.
 */
const hashes = createTaskCounter({ maxTasks: 50 });

/** Returns true if sign-ins should be refused because too many hashes are already waiting. */
export const isHashingBusy = hashes.isBusy;

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(saltBytes);
  const hash = await derive(password, { nonce: salt, tagLength: hashBytes, ...cost });
  return `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${encode(salt)}$${encode(hash)}`;
}

/**
 * Checks a password against its stored hash. Pass null if the account doesn't exist: this takes just as long and
 * returns false, so nobody can tell the difference.
 */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const match = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/.exec(stored ?? unusableHash);
  if (!match) throw new Error('a stored password hash is not an argon2id PHC string');
  const [, memory, passes, parallelism, salt = '', hash = ''] = match;
  const expected = Buffer.from(hash, 'base64');
  const parameters = { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism) };
  const given = await derive(password, { nonce: Buffer.from(salt, 'base64'), tagLength: expected.length, ...parameters });
  return timingSafeEqual(given, expected) && stored !== null;
}

/** Throws `bad_request` if the password is too short, too long or too easy to guess. */
export function assertPassword(password: string, email: string): void {
  const { length } = [...password];
  const problem =
    length < minLength
      ? `must have at least ${minLength} characters`
      : length > maxLength
        ? `must have at most ${maxLength} characters`
        : new Set(password).size < 4 || password.toLowerCase() === email
          ? 'is too easy to guess'
          : null;
  if (problem !== null) throw gatewayError('bad_request', { issues: [{ path: 'password', message: problem }] });
}

const unusableHash = `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${encode(Buffer.alloc(saltBytes))}$${encode(Buffer.alloc(hashBytes))}`;

/** Hashes a password after normalizing it to NFKC, because keyboards compose characters in different ways. */
async function derive(password: string, parameters: Omit<Argon2Parameters, 'message'>): Promise<Buffer> {
  const message = password.slice(0, 4 * maxLength).normalize('NFKC');
  const { hash } = await hashes.run(() => deriveInThread('passwords', { message, ...parameters }));
  return Buffer.from(hash);
}

function encode(bytes: Buffer): string {
  return trimEnd(bytes.toString('base64'), '=');
}
