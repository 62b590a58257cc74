/** Adapts request bodies for vendors whose format differs from their dialect. */
import { type Member, type Splice, scanObject, splice } from '../core/json/spans.ts';
import type { RequestFormat } from '../core/request-format.ts';

export function changesBodies({ membersInPath, addedMembers }: RequestFormat): boolean {
  return membersInPath.length > 0 || Object.keys(addedMembers).length > 0;
}

/** Checks whether the provider expects the version of the messages dialect in the body instead of a header. */
export function hasVersionInBody({ addedMembers }: RequestFormat): boolean {
  return 'anthropic_version' in addedMembers;
}

export interface BodyContext {
  /** True if the path contains the model. The fields in `membersInPath` are then left out of the body. */
  readonly hasModelInPath: boolean;
  /** Headers for the vendor. Some request formats repeat them in the body. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * The version of the messages API that we use unless the caller asks for another one. The clouds have their own name
 * for this version, but later versions have the same names as Anthropic's.
 */
export const firstVersion = '2023-06-01';

/**
 * Removes and adds fields as the provider's format requires. Fields that the caller has set stay as they are, except
 * for the beta flags, which always come from the header. This scans the body once more, but only a few vendors need it.
 */
export function adaptBody(bytes: Buffer, format: RequestFormat, { hasModelInPath, headers }: BodyContext): Buffer {
  const { 'anthropic-version': version = firstVersion, 'anthropic-beta': flags = '' } = headers;
  const hasFlags = format.betaFlags?.isInBody === true;
  const added: Record<string, unknown> = {
    ...format.addedMembers,
    ...(version !== firstVersion && hasVersionInBody(format) && { anthropic_version: version }),
    ...(hasFlags && flags !== '' && { anthropic_beta: flags.split(',') }),
  };
  const omitted = [...(hasModelInPath ? format.membersInPath : []), ...(hasFlags ? ['anthropic_beta'] : [])];
  const { object, members, isEmpty } = scanObject(bytes, new Set([...omitted, ...Object.keys(added)]));
  const texts = Object.entries(added).map(([key, value]) => {
    const own = omitted.includes(key) ? null : textOf(bytes, members.get(key));
    return `${JSON.stringify(key)}:${own ?? JSON.stringify(value)}`;
  });
  // Added fields go to the start of the object. When we remove a field, we also remove the comma before it. The first
  // field has no comma before it, so if we remove that field, the comma after it stays and separates the added fields
  // from the rest.
  const cuts = [...members.values()].map((member) => cutWithComma(bytes, member));
  const start = object.start + 1;
  const isFirstCut = cuts.some(({ span }) => bytes[span.start] !== comma);
  const inserted = { span: { start, end: start }, replacement: texts.join(',') + (isEmpty || isFirstCut ? '' : ',') };
  return splice(bytes, [inserted, ...cuts]);
}

const comma = ','.charCodeAt(0);

function textOf(bytes: Buffer, member: Member | undefined): string | null {
  return member ? bytes.toString('utf8', member.value.start, member.value.end) : null;
}

function cutWithComma(bytes: Buffer, { start, value }: Member): Splice {
  let before = start - 1;
  while (/\s/.test(String.fromCharCode(bytes[before] ?? 0))) before -= 1;
  return { span: { start: bytes[before] === comma ? before : start, end: value.end }, replacement: '' };
}
