/** The demo vendor's routes. It only has those that its models in the built-in catalog need. */
import { handleChat } from './chat.ts';
import { handleEmbeddings } from './embeddings.ts';
import { type Family, gemini, openai } from './errors.ts';
import { handleImageEdits, handleImages } from './images.ts';
import { asString, type JsonObject } from './json.ts';
import { handleModerations, handleRerank } from './moderation-rerank.ts';
import type { DemoRequest, DemoResponse } from './response.ts';
import { handleSpeech } from './speech.ts';
import { handleTranscription } from './transcriptions.ts';
import { createVideos } from './videos.ts';

export interface Route {
  readonly family: Family;
  /** Returns the model that a request names. Null for routes on which requests don't name one. */
  readonly readModel: ((parts: { json: JsonObject; pathParam: string; query: string }) => string) | null;
  readonly handle: (request: DemoRequest) => DemoResponse;
  readonly needsKey: boolean;
}

/** Returns the route and the variable part of the path, or null if we don't have this path. */
export type FindRoute = (method: string, path: string) => { readonly route: Route; readonly pathParam: string } | null;

export function createRoutes(): FindRoute {
  const videos = createVideos();
  const exact: ReadonlyMap<string, Route> = new Map([
    ['/v1/chat/completions', bodyRoute(openai, handleChat)],
    ['/v1/embeddings', bodyRoute(openai, handleEmbeddings)],
    ['/v1/moderations', bodyRoute(openai, handleModerations)],
    ['/v1/rerank', bodyRoute(openai, handleRerank)],
    ['/v1/images/generations', bodyRoute(openai, handleImages)],
    ['/v1/images/edits', bodyRoute(openai, handleImageEdits)],
    ['/v1/audio/transcriptions', bodyRoute(openai, handleTranscription)],
    ['/v1/audio/translations', bodyRoute(openai, handleTranscription)],
    ['/v1/audio/speech', bodyRoute(openai, handleSpeech)],
  ]);
  const findByPattern = matchPatterns([
    ['POST', /^\/v1beta\/models\/([^/]+):predictLongRunning$/, pathRoute(gemini, videos.start)],
    ['GET', /^\/v1beta\/(models\/[^/]+\/operations\/[^/]+)$/, namelessRoute(gemini, videos.poll)],
    ['GET', /^\/v1beta\/files\/([^/:]+):download$/, namelessRoute(gemini, videos.download)],
  ]);
  return (method, path) => {
    const route = method === 'POST' ? exact.get(path) : undefined;
    return route === undefined ? findByPattern(method, path) : { route, pathParam: '' };
  };
}

/** Finds a route by regular expressions. The first group is the variable part of the path. */
export function matchPatterns(patterns: readonly (readonly [method: string, path: RegExp, route: Route])[]): FindRoute {
  return (method, path) => {
    for (const [patternMethod, pattern, route] of patterns) {
      const match = patternMethod === method ? pattern.exec(path) : null;
      if (match !== null) return { route, pathParam: match[1] ?? '' };
    }
    return null;
  };
}

export function bodyRoute(family: Family, handle: Route['handle']): Route {
  return { family, readModel: ({ json }) => asString(json.model), handle, needsKey: true };
}

export function pathRoute(family: Family, handle: Route['handle']): Route {
  return { family, readModel: ({ pathParam }) => pathParam, handle, needsKey: true };
}

export function namelessRoute(family: Family, handle: Route['handle']): Route {
  return { family, readModel: null, handle, needsKey: true };
}
