/** Jobs for `low-priority-thread.test.ts`. */
import { readlinkSync } from 'node:fs';
import { getPriority } from 'node:os';
import { gatewayError } from '../../src/core/errors.ts';

export function echo<Value extends object>(value: Value): Value {
  return value;
}

export function fail({ message }: { readonly message: string }): never {
  throw new Error(message);
}

export function refuse({ message }: { readonly message: string }): never {
  throw gatewayError('bad_json', { message });
}

/** Breaks the thread, like an allocation that fails. */
export function breakThread(_input: object): never {
  process.exit(1);
}

export function readPriority(_input: object): { readonly priority: number } {
  return { priority: getPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1))) };
}

/** Occupies the thread until the flag is set. */
export function block({ flag }: { readonly flag: Int32Array }): { readonly woken: string } {
  return { woken: Atomics.wait(flag, 0, 0, 60_000) };
}
