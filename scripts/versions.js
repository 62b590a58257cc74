/** Comparing versions as far as the bootstrap needs it: three numbers, and ranges of the one form `>=22.18`. */

/**
 * Negative, zero or positive, as `left` is older than, equal to or newer than `right`. Missing parts count as zero.
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
 * Does `version` satisfy `range`? Only the form `>=x.y.z` is known; anything else is a mistake in package.json and throws.
 * @param {string} version
 * @param {string} range
 */
export function satisfies(version, range) {
  const least = /^>=\s*(\d+(?:\.\d+){0,2})$/.exec(range.trim())?.[1];
  if (least === undefined) throw new Error(`engines.node in package.json must look like ">=22.18", not ${JSON.stringify(range)}`);
  return compareVersions(version, least) >= 0;
}

/** @param {string} version */
function parse(version) {
  return version.replace(/^v/, '').split('-', 1).join('').split('.').map(Number);
}
