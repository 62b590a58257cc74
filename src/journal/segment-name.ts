/** Names of the files in a journal folder. */

export const lockFileName = 'owner.lock';
export const ballastFileName = 'reserve';

/** Returns a name like `segment-00000001`. The number is zero-padded, so that names sort in order. */
export function segmentName(number: number): string {
  return `segment-${String(number).padStart(8, '0')}`;
}

/** Returns the numbers of the segments among these file names, oldest first. */
export function segmentNumbers(names: readonly string[]): number[] {
  return names
    .flatMap((name) => {
      const match = /^segment-(\d{8,15})$/.exec(name);
      return match ? [Number(match[1])] : [];
    })
    .sort((one, other) => one - other);
}
