/** Compares versions for the bootstrap. It only knows versions with up to three parts, and ranges such as `>=22.18`. */

/**
 * Compares two versions. The result is negative if `left` is older than `right`, zero if they're equal, and positive if
 * it's newer. Parts that are missing count as zero.
 * @param {string} left
 * @param {string} right
 */
export function compareVersions(left, right) {
  const [leftParts, rightParts] = [parse(left), parse(right)];
  for (let index = 0; index < 3; index += 1) {
    const difference = (leftParts[index] ?? 0) - (rightParts[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Returns true if `version` satisfies `range`. Throws if the range doesn't have the form `>=x.y.z`.
 * @param {string} version
 * @param {string} range
 */
export function satisfies(version, range) {
  const min = /^>=\s*(\d+(?:\.\d+){0,2})$/.exec(range.trim())?.[1];
  if (min === undefined) throw new Error(`engines.node in package.json must have the form ">=22.18", not ${JSON.stringify(range)}`);
  return compareVersions(version, min) >= 0;
}

/** @param {string} version */
function parse(version) {
  return version.replace(/^v/, '').split('-', 1).join('').split('.').map(Number);
}
