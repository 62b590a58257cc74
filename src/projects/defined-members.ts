/** Drops undefined members, because they would overwrite existing values with defaults. */
export function definedMembers(part: object = {}): object {
  return Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined));
}
