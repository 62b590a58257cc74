/**
 * Named places at which tests kill the process (test/journal/kill.test.ts). They're before and after each write, and
 * between the steps of the drain and of recovery. In production they do nothing.
 */

/** Failpoints in the journal of a running process and in its drain. */
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

/** Failpoints in the recovery of a dead process's journal. */
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
