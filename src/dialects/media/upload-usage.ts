/**
 * Reads the usage that a vendor bills for a transcription or an image edit, from a plain or a streamed response
 * (docs/vendors.md).
 */
import { asArray, asCount, asObject, asString, isObject, type JsonObject } from '../../core/json/narrow.ts';
import { parseJson } from '../../core/json/parse.ts';
import type { Tokens, Units } from '../../core/pricing.ts';
import type { SseEvent } from '../../core/sse.ts';
import { parseResponsesUsage } from '../contract/token-usage.ts';

export interface UploadUsage {
  /**
   * The units that the vendor bills, i.e. images and input image tokens for an edit, or seconds of audio for a
   * transcription.
   */
  readonly units: Units;
  /** True if the vendor didn't report the seconds, so they had to be estimated. */
  readonly unitsEstimated: boolean;
  /** Null if the vendor didn't report any tokens. */
  readonly tokens: Tokens | null;
  /** The transcript, so that content rules can check it. */
  readonly text?: string;
}

/** The average speed of spoken English. */
export const charactersPerSecond = 15;

/** Images that the vendor didn't generate, e.g. because of a filter, are rows without an image. */
export function parseEditUsage(body: Buffer): UploadUsage {
  const { data, usage } = asObject(parseJson(body.toString('utf8')));
  return readEdit(asArray(data).map(asObject).filter(isGenerated).length, usage);
}

function isGenerated({ b64_json: base64, url }: JsonObject): boolean {
  return [base64, url].some((value) => typeof value === 'string' && value !== '');
}

function readEdit(images: number, usage: unknown): UploadUsage {
  const imageTokens = asCount(asObject(asObject(usage).input_tokens_details).image_tokens);
  const units = { images, ...(imageTokens !== undefined && { imageTokens }) };
  return { units, unitsEstimated: false, tokens: parseResponsesUsage(usage) };
}

/** Parses a transcript. Plain text and subtitles don't report any usage, so the seconds are estimated. */
export function parseTranscriptionUsage(body: Buffer): UploadUsage {
  const text = body.toString('utf8');
  const json = parseJson(text);
  if (!isObject(json)) return { ...estimate(findSubtitleEnd(text) ?? text.trim().length / charactersPerSecond), text };
  return readTranscript(json);
}

/** Returns null for all events except those that complete an image or a transcript. They contain the usage. */
export function parseUploadEvent({ data }: SseEvent): UploadUsage | null {
  const event = asObject(parseJson(data));
  switch (event.type) {
    case 'image_edit.completed':
      return readEdit(1, event.usage);
    case 'transcript.text.done':
      return readTranscript(event);
    default:
      return null;
  }
}

/**
 * Adds up the usage of a stream's events. Each completed image has an event of its own, but a transcript only has one.
 */
export function addUploadUsage(total: UploadUsage | null, usage: UploadUsage | null): UploadUsage | null {
  if (!total || !usage) return usage ?? total;
  if (usage.units.images === undefined) return usage;
  const tokens = total.tokens && usage.tokens ? addCounts(total.tokens, usage.tokens) : (usage.tokens ?? total.tokens);
  return { units: addCounts(total.units, usage.units), unitsEstimated: false, tokens };
}

function addCounts<Counts extends { readonly [name in keyof Counts]?: number }>(first: Counts, second: Counts): Counts {
  const names = new Set([...Object.keys(first), ...Object.keys(second)]) as Set<keyof Counts>;
  return Object.fromEntries([...names].map((name) => [name, (first[name] ?? 0) + (second[name] ?? 0)])) as unknown as Counts;
}

/** Returns the transcript text that this event adds. Empty unless the event is a text delta. */
export function parseTranscriptDelta({ data }: SseEvent): string {
  const { type, delta, text } = asObject(parseJson(data));
  if (type === 'transcript.text.delta') return asString(delta) ?? '';
  return type === 'transcript.text.segment' ? `${asString(text) ?? ''}\n` : '';
}

function readTranscript({ usage, duration, text: written }: Readonly<Record<string, unknown>>): UploadUsage {
  const tokens = parseResponsesUsage(usage);
  const text = asString(written) ?? '';
  const seconds = asSeconds(asObject(usage).seconds) ?? asSeconds(duration);
  if (seconds !== null) return { units: { seconds }, unitsEstimated: false, tokens, text };
  return { ...estimate(text.length / charactersPerSecond), tokens, text };
}

function estimate(seconds: number): UploadUsage {
  return { units: { seconds }, unitsEstimated: true, tokens: null };
}

/** Accepts numeric strings, which some vendors send. */
function asSeconds(value: unknown): number | null {
  const seconds = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0 ? seconds : null;
}

/** Returns the end of the last subtitle in seconds. Supports SRT and WebVTT, and returns null for any other text. */
function findSubtitleEnd(text: string): number | null {
  const last = [...text.matchAll(/-->[ \t]*(?:(\d+):)?(\d{2}):(\d{2})[.,](\d{3})/g)].at(-1);
  if (!last) return null;
  const [, hours = '0', minutes = '0', seconds = '0', milliseconds = '0'] = last;
  return Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds) + Number(milliseconds) / 1_000;
}
