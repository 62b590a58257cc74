/** Adapts request bodies to vendors that don't take them as their dialect defines them. */
import { type Member, type Splice, scanObject, splice } from '../core/json/spans.ts';
import type { RequestFormat } from '../core/request-format.ts';

/** Reports whether `adaptBody` changes bodies for this provider. */
export function changesBodies({ addedMembers }: RequestFormat): boolean {
  return Object.keys(addedMembers).length > 0;
}

/** Reports whether the body names the version of the messages dialect, in place of the header. */
export function hasVersionInBody({ addedMembers }: RequestFormat): boolean {
  return 'anthropic_version' in addedMembers;
}

export interface BodyContext {
  /** Whether the path names the model, so that the body can't. */
  readonly hasModelInPath: boolean;
  /** The headers that the vendor gets, some of which the body has to repeat. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The version that has another name at each cloud. Clouds have the same names as Anthropic for later versions. */
const firstVersion = '2023-06-01';

/**
 * Omits and adds the members that the provider's format requires. A member that the caller has set already keeps its
 * value, except for the beta flags, which are those of the header. This costs another scan of the body, which only
 * vendors with such a format need.
 */
export function adaptBody(bytes: Buffer, format: RequestFormat, { hasModelInPath, headers }: BodyContext): Buffer {
  const { 'anthropic-version': version = firstVersion, 'anthropic-beta': flags = '' } = headers;
  const hasFlags = format.betaFlags?.isInBody === true;
  const added: Record<string, unknown> = {
    ...format.addedMembers,
    ...(version !== firstVersion && hasVersionInBody(format) && { anthropic_version: version }),
    ...(hasFlags && flags !== '' && { anthropic_beta: flags.split(',') }),
  };
  const omitted = [...(hasModelInPath ? format.omittedMembers : []), ...(hasFlags ? ['anthropic_beta'] : [])];
  const { object, members, isEmpty } = scanObject(bytes, new Set([...omitted, ...Object.keys(added)]));
  const texts = Object.entries(added).map(([key, value]) => {
    const own = omitted.includes(key) ? null : textOf(bytes, members.get(key));
    return `${JSON.stringify(key)}:${own ?? JSON.stringify(value)}`;
  });
  // The added members come first. We then cut each other member with the comma before it, or, if it's the first one,
  // leave out the comma after the added members.
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
