import { countEdits } from '../routing/nearest-name.ts';

export type Addresses = readonly string[];

const maxPathLength = 200;

/**
 * Returns a message such as `POST /chat/completions: did you mean /v1/chat/completions?`. If the path is known, the
 * message lists its methods.
 */
export function describeUnknownPath(method: string, path: string, addresses: Addresses): string {
  const request = `${method} ${path.replace(/[^\x21-\x7e]/g, '').slice(0, maxPathLength)}`;
  const known = addresses.map((address) => {
    const [verb = '', route = ''] = address.split(' ');
    return { verb: verb.toUpperCase(), route };
  });
  const verbsOf = (asked: string) => known.filter(({ route }) => matches(route, asked)).map(({ verb }) => verb);
  const verbs = verbsOf(path);
  if (verbs.length > 0) return `${request}: use ${verbs.join(' or ')}`;
  const corrected = spellings(path).find((spelling) => verbsOf(spelling).length > 0) ?? findNearest(path, known);
  return corrected === null ? `${request}: there is no such path` : `${request}: did you mean ${corrected}?`;
}

/**
 * Returns likely corrections of a path, e.g. if the client's base URL lacks the version, contains it twice, or ends
 * with a slash.
 */
function spellings(path: string): string[] {
  const plain = path.replace(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '');
  const bare = plain.replace(/^(?:\/v1)+(?=\/)/i, '');
  return [plain, `/v1${bare}`, bare].flatMap((spelling) => [spelling, spelling.toLowerCase()]).filter((spelling) => spelling !== path);
}

function findNearest(path: string, known: readonly { readonly route: string }[]): string | null {
  const spelled = [...spellings(path), path];
  const ranked = known
    .filter(({ route }) => !route.includes('{'))
    .map(({ route }) => ({ route, distance: Math.min(...spelled.map((spelling) => countEdits(spelling, route, maxDistance + 1))) }))
    .sort((left, right) => left.distance - right.distance);
  const [nearest] = ranked;
  return nearest && nearest.distance <= maxDistance ? nearest.route : null;
}

/** Allow two typos, as in `/v1/completion` or `/v1/chat/completoins`. */
const maxDistance = 2;

/** Compares a path with a route. A segment in braces, such as `{id}`, matches any value. */
function matches(route: string, path: string): boolean {
  const [left, right] = [route.split('/'), path.split('/')];
  return left.length === right.length && left.every((segment, at) => (segment.startsWith('{') ? right[at] !== '' : segment === right[at]));
}
