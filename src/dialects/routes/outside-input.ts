/**
 * Finds out whether a body refers to input outside of it, or asks the vendor to cache the prompt. Both can make a call
 * more expensive than the length of its prompt suggests.
 */
import type { TextRoute } from '../../core/call.ts';
import { characters } from '../../core/json/characters.ts';
import type { BodySpans, Member } from '../../core/json/spans.ts';
import { skipSpace } from '../../core/json/syntax.ts';
import { factsOf } from '../json/body-facts.ts';
import { knownRegionsOf, type References, unknownPieces } from '../json/known-regions.ts';
import { hasAddedTools } from './added-tools.ts';

/** Use buffers, because searching for a buffer is faster than searching for a string. */
const cacheMark = Buffer.from('"cache_control"');
const typeMark = Buffer.from('"type"');
/**
 * Fields and part types that refer to input outside the body. We include `file_data` even though the file is in the
 * body, because its pages may be compressed, so a small file can have many of them. Some vendors also accept a data
 * URL with a PDF or a video where a request normally has an image. The schema of a tool may have properties with the
 * same names, which don't refer to anything.
 */
const reference = anyOf(
  /"(?:file_id|file_url|file_data)"\s*:\s*[^\s{]/,
  /"file_url"\s*:\s*\{\s*"url"\s*:\s*"/,
  /"type"\s*:\s*"(?:video_url|audio_url|document_url|item_reference|file_url|input_video|video)"/,
  /"(?:video_url|audio_url|document_url)"\s*:\s*(?!\s|\{\s*"(?:type|description|title|anyOf|\$ref)")/,
  /"(?:input_audio|data)"\s*:\s*"https?:/,
  /"type"\s*:\s*"mcp/,
  /"data:(?!image|audio|text)\w+\\?\//,
);
/** A tool that lets the vendor call an MCP server. */
const mcpTool = /"type"\s*:\s*"mcp(?:_toolset)?"/;
/**
 * Matches an object with nothing but an id. On the responses route that's a reference to an earlier item, because the
 * `type` of an item is optional.
 */
const itemById = /\{\s*"id"\s*:\s*"[^"]*"\s*\}/;
const documentType = /"type"\s*:\s*"document"/;
/** All document sources except plain text. */
const documentSource = /"type"\s*:\s*"(?:url|file|base64)"/;

export function findReferences(bytes: Buffer): References {
  // One regular expression over a string is faster than searching the bytes for each name (measured).
  const text = bytes.toString('latin1');
  return {
    hasTypes: bytes.includes(typeMark),
    hasReference: reference.test(text),
    hasItemById: itemById.test(text),
    hasDocument: documentType.test(text),
    hasDocumentSource: documentSource.test(text),
    hasCacheMark: bytes.includes(cacheMark),
    hasAddedTools: hasAddedTools(bytes),
  };
}

/**
 * Checks whether the vendor has to read input that isn't in the body, such as a file, media at a URL, or an item of an
 * earlier response. Documents count too even if they're in the body, because a small one can have many pages.
 */
export function refersElsewhere(body: Buffer, route: TextRoute): boolean {
  const known = factsOf(body)?.refersElsewhere;
  if (known !== undefined) return known;
  const regions = knownRegionsOf(body);
  // A body whose messages are all plain strings has no `type` fields, so it can't refer to anything.
  if (regions.length === 0 && route !== 'responses' && !body.includes(typeMark)) return false;
  const found = [...regions.map(({ references }) => references), ...unknownPieces(body).map(findReferences)];
  const has = (name: keyof References): boolean => found.some((references) => references[name]);
  if (route === 'responses') return has('hasReference') || has('hasItemById') || (has('hasDocument') && has('hasDocumentSource'));
  return has('hasTypes') && (has('hasReference') || (has('hasDocument') && has('hasDocumentSource')));
}

const { closeBracket, openBrace, openBracket } = characters;
const cachedMark = Buffer.from('cached');
const mcpMark = Buffer.from('mcp');

/** Checks whether the fields of a request refer to content that Gemini has cached, or to MCP servers. */
export function namesOutsideInput(body: Buffer, { members }: BodySpans): boolean {
  if (isNamed(members.get('cached_content')) || isNamed(members.get('cachedContent'))) return true;
  return namesServers(body, members) || namesCache(body, members.get('extra_body')) || namesCache(body, members.get('google'));
}

function namesCache(body: Buffer, member: Member | undefined): boolean {
  return member !== undefined && body.subarray(member.value.start, member.value.end).includes(cachedMark);
}

/**
 * Checks whether the vendor may call MCP servers. Their results become input of the model while it is already
 * generating, so the usage at the beginning of a stream doesn't include them.
 */
export function usesServers(body: Buffer, { members }: BodySpans): boolean {
  return namesServers(body, members) || (body.includes(mcpMark) && mcpTool.test(body.toString('latin1')));
}

function namesServers(body: Buffer, members: BodySpans['members']): boolean {
  const servers = members.get('mcp_servers');
  if (servers === undefined || !isNamed(servers)) return false;
  const { start } = servers.value;
  return body[start] !== openBracket || body[skipSpace(body, start + 1)] !== closeBracket;
}

export function isNamed(member: Member | undefined): boolean {
  return member !== undefined && member.kind !== 'null';
}

/**
 * Matches media in a request for embeddings, given by its address or as base64. Media is always in an object, where it
 * can have any key except those that stand for text.
 */
const mediaStart = anyOf(/(?:https?|gs|s3|file):/, /data:\w+\\?\//, /iVBORw0KGgo|\\?\/9j\\?\/|R0lGOD|UklGR|JVBERi0/);
const mediaExcept = (keys: string): RegExp => new RegExp(`:(?<!"(?:${keys})"\\s*:)\\s*"(?:${mediaStart.source})`, 'gi');
const media = mediaExcept('input|text|query|title|content');
/** Documents to rank often say where their text comes from. */
const rankedMedia = mediaExcept('input|text|query|title|content|url|uri|link|href|source|id');
const escapedCharacter = /\\u00([0-7][0-9a-f])/gi;

/** Counts the images, documents and videos in a request for embeddings or a rerank call. */
export function countMedia(body: Buffer, route: TextRoute): number {
  const known = factsOf(body)?.media;
  if (known !== undefined) return known;
  // Most requests are lists of plain strings, so they have no object besides the body itself.
  if (body.indexOf(openBrace, body.indexOf(openBrace) + 1) < 0) return 0;
  const text = body.toString('latin1').replace(escapedCharacter, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return text.match(route === 'rerank' ? rankedMedia : media)?.length ?? 0;
}

/** Joins the patterns into one, because a single search is faster than several. */
function anyOf(...patterns: readonly RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join('|'));
}

/** Checks whether the body mentions `cache_control`, which asks the vendor to cache the prompt. */
export function mentionsCacheControl(body: Buffer): boolean {
  const known = factsOf(body)?.mentionsCacheControl;
  if (known !== undefined) return known;
  return (
    knownRegionsOf(body).some(({ references }) => references.hasCacheMark) || unknownPieces(body).some((piece) => piece.includes(cacheMark))
  );
}
