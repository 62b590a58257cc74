/** Names inside a journal's folder. */

export const lockFileName = 'owner.lock';
export const ballastFileName = 'reserve';

/** `segment-00000001`; the width keeps listings in order, larger numbers just grow longer. */
export function segmentName(number: number): string {
  return `segment-${String(number).padStart(8, '0')}`;
}

/** Numbers of the segments among the names of a folder, oldest first. */
export function segmentNumbers(names: readonly string[]): number[] {
  return names
    .flatMap((name) => {
      const match = /^segment-(\d{8,15})$/.exec(name);
      return match ? [Number(match[1])] : [];
    })
    .sort((one, other) => one - other);
}
