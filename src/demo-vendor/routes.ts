/** The routes of the demo vendor. */
import { handleChat } from './chat.ts';
import { handleEmbeddings } from './embeddings.ts';
import type { Family } from './errors.ts';
import { handleArtifacts, handleImageFile, handleImages } from './images.ts';
import { handleMessages } from './messages.ts';
import { handleModerations, handleRerank } from './moderation-rerank.ts';
import type { IncomingRequest, OutgoingResponse } from './response.ts';
import { handleResponses } from './responses.ts';
import { handleSpeech, handleVoice } from './speech.ts';
import type { Videos } from './videos.ts';

export interface Route {
  readonly family: Family;
  /** Location of the model's name, which holds the script. */
  readonly modelIn: 'body' | 'path' | 'query' | 'nowhere';
  readonly needsKey: boolean;
  handle(request: IncomingRequest): OutgoingResponse;
}

export interface RouteMatch {
  readonly route: Route;
  readonly pathParam: string;
}

/** Returns a function that finds the route of a request; null for an unknown path. */
export function createRoutes(videos: Videos): (method: string, path: string) => RouteMatch | null {
  const body = (family: Family, handle: Route['handle']): RouteMatch => ({
    route: { family, modelIn: 'body', needsKey: true, handle },
    pathParam: '',
  });
  const exact: ReadonlyMap<string, RouteMatch> = new Map([
    ['/v1/chat/completions', body('openai', handleChat)],
    ['/v1/messages', body('anthropic', handleMessages)],
    ['/v1/embeddings', body('openai', handleEmbeddings)],
    ['/v1/responses', body('openai', handleResponses)],
    ['/v1/moderations', body('openai', handleModerations)],
    ['/v1/rerank', body('openai', handleRerank)],
    ['/v1/images/generations', body('openai', handleImages)],
    ['/v1/audio/speech', body('openai', handleSpeech)],
    ['/v1/speak', { route: { family: 'voice', modelIn: 'query', needsKey: true, handle: handleVoice }, pathParam: '' }],
  ]);
  const patterns: readonly (Route & { readonly method: string; readonly pattern: RegExp })[] = [
    {
      method: 'POST',
      pattern: /^\/v1\/genai\/[^/]+\/([^/]+)$/,
      family: 'artifacts',
      modelIn: 'path',
      needsKey: true,
      handle: handleArtifacts,
    },
    { method: 'POST', pattern: /^\/v1\/text-to-speech\/([^/]+)$/, family: 'voice', modelIn: 'path', needsKey: true, handle: handleVoice },
    {
      method: 'POST',
      pattern: /^\/v1beta\/models\/([^/]+):predictLongRunning$/,
      family: 'gemini',
      modelIn: 'path',
      needsKey: true,
      handle: videos.start,
    },
    {
      method: 'GET',
      pattern: /^\/v1beta\/(models\/[^/]+\/operations\/[^/]+)$/,
      family: 'gemini',
      modelIn: 'nowhere',
      needsKey: true,
      handle: videos.poll,
    },
    {
      method: 'GET',
      pattern: /^\/v1beta\/files\/([^/:]+):download$/,
      family: 'gemini',
      modelIn: 'nowhere',
      needsKey: true,
      handle: videos.download,
    },
    {
      method: 'GET',
      pattern: /^\/v1beta\/stored\/([^/]+)\.mp4$/,
      family: 'gemini',
      modelIn: 'nowhere',
      needsKey: false,
      handle: videos.stored,
    },
    { method: 'GET', pattern: /^\/files\/([^/]+)\.png$/, family: 'openai', modelIn: 'nowhere', needsKey: false, handle: handleImageFile },
  ];

  return (method, path) => {
    const match = method === 'POST' ? exact.get(path) : undefined;
    if (match !== undefined) return match;
    for (const route of patterns) {
      const match = route.method === method ? route.pattern.exec(path) : null;
      if (match !== null) return { route, pathParam: match[1] ?? '' };
    }
    return null;
  };
}
