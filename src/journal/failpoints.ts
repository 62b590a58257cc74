/**
 * Named places at which tests can kill the process (test/journal/kill.test.ts). They are before and after each write,
 * and between the steps of the drain and of recovery. They do nothing in production.
 */

/** The failpoints in the journal and the drain of a running process. */
export const liveFailpoints = [
  'before write',
  'after write',
  'before read',
  'before store',
  'before commit',
  'after store',
  'before discard',
  'after discard',
] as const;

/** The failpoints in the code that recovers the journal of a dead process. */
export const recoveryFailpoints = [
  'after takeover',
  'before read',
  'before store',
  'before commit',
  'after store',
  'before unknown',
  'before remove',
  'after rename',
  'after remove',
] as const;

export type Failpoint = (typeof liveFailpoints)[number] | (typeof recoveryFailpoints)[number];

export type HitFailpoint = (name: Failpoint) => void;
