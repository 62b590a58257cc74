/** Names inside a journal's folder. */

export const lockName = 'owner.lock';
export const reserveName = 'reserve';

/** `segment-00000001`; the width keeps listings in order, larger numbers just grow longer. */
export function segmentName(number: number): string {
  return `segment-${String(number).padStart(8, '0')}`;
}

/** Numbers of the segments among the names of a folder, oldest first. */
export function segmentNumbers(names: readonly string[]): number[] {
  return names
    .flatMap((name) => {
      const found = /^segment-(\d{8,15})$/.exec(name);
      return found ? [Number(found[1])] : [];
    })
    .sort((one, other) => one - other);
}
