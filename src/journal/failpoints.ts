/**
 * Where a process may die between two steps, by name: before and after each write, and between the steps of drain and recovery. Tests kill real
 * processes at each of them (test/journal/kill.test.ts); nothing else happens there.
 */

/** Passed by the journal of a process that lives, and its drain. */
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

/** Passed by the recovery of a dead process's journal. */
export const recoveryFailpoints = [
  'after adopt',
  'before read',
  'before store',
  'before commit',
  'after store',
  'before unknown',
  'before remove',
  'after remove',
] as const;

export type Failpoint = (typeof liveFailpoints)[number] | (typeof recoveryFailpoints)[number];

export type HitFailpoint = (name: Failpoint) => void;
