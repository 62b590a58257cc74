/** File names in a journal's folder. */

export const lockFileName = 'owner.lock';
export const ballastFileName = 'reserve';

/** Returns a name like `segment-00000001`, padded with zeros so that listings are in order. */
export function segmentName(number: number): string {
  return `segment-${String(number).padStart(8, '0')}`;
}

/** Finds the segment numbers among the file names of a folder, oldest first. */
export function segmentNumbers(names: readonly string[]): number[] {
  return names
    .flatMap((name) => {
      const match = /^segment-(\d{8,15})$/.exec(name);
      return match ? [Number(match[1])] : [];
    })
    .sort((one, other) => one - other);
}
