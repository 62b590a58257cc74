/** The routes of the demo vendor. */
import { handleChat } from './chat.ts';
import { handleEmbeddings } from './embeddings.ts';
import type { Family } from './errors.ts';
import { handleArtifacts, handleImageEdits, handleImageFile, handleImages } from './images.ts';
import { handleCountTokens, handleMessages } from './messages.ts';
import { handleModerations, handleRerank } from './moderation-rerank.ts';
import type { IncomingRequest, OutgoingResponse } from './response.ts';
import { handleResponses } from './responses.ts';
import { handleSpeech, handleVoice } from './speech.ts';
import { handleTranscription } from './transcriptions.ts';
import type { Videos } from './videos.ts';

export interface Route {
  readonly family: Family;
  /** Location of the model's name, which holds the script. */
  readonly modelIn: 'body' | 'path' | 'query' | 'nowhere';
  readonly handle: (request: IncomingRequest) => OutgoingResponse;
  readonly needsKey: boolean;
}

export interface RouteMatch {
  readonly route: Route;
  readonly pathParam: string;
}

/** Returns a function that finds the route of a request; null for an unknown path. */
export function createRoutes(videos: Videos): (method: string, path: string) => RouteMatch | null {
  const exact: ReadonlyMap<string, Route> = new Map([
    ['/v1/chat/completions', route('openai', 'body', handleChat)],
    ['/v1/messages', route('anthropic', 'body', handleMessages)],
    ['/v1/messages/count_tokens', route('anthropic', 'body', handleCountTokens)],
    ['/v1/embeddings', route('openai', 'body', handleEmbeddings)],
    ['/v1/responses', route('openai', 'body', handleResponses)],
    ['/v1/moderations', route('openai', 'body', handleModerations)],
    ['/v1/rerank', route('openai', 'body', handleRerank)],
    ['/v1/images/generations', route('openai', 'body', handleImages)],
    ['/v1/images/edits', route('openai', 'body', handleImageEdits)],
    ['/v1/audio/transcriptions', route('openai', 'body', handleTranscription)],
    ['/v1/audio/translations', route('openai', 'body', handleTranscription)],
    ['/v1/audio/speech', route('openai', 'body', handleSpeech)],
    ['/v1/speak', route('voice', 'query', handleVoice)],
  ]);
  const patterns: readonly (readonly [method: string, path: RegExp, route: Route])[] = [
    ['POST', /^\/v1\/genai\/[^/]+\/([^/]+)$/, route('artifacts', 'path', handleArtifacts)],
    ['POST', /^\/v1\/text-to-speech\/([^/]+)$/, route('voice', 'path', handleVoice)],
    ['POST', /^\/v1beta\/models\/([^/]+):predictLongRunning$/, route('gemini', 'path', videos.start)],
    ['GET', /^\/v1beta\/(models\/[^/]+\/operations\/[^/]+)$/, route('gemini', 'nowhere', videos.poll)],
    ['GET', /^\/v1beta\/files\/([^/:]+):download$/, route('gemini', 'nowhere', videos.download)],
    ['GET', /^\/v1beta\/stored\/([^/]+)\.mp4$/, { ...route('gemini', 'nowhere', videos.stored), needsKey: false }],
    ['GET', /^\/files\/([^/]+)\.png$/, { ...route('openai', 'nowhere', handleImageFile), needsKey: false }],
  ];

  return (method, path) => {
    const found = method === 'POST' ? exact.get(path) : undefined;
    if (found !== undefined) return { route: found, pathParam: '' };
    for (const [patternMethod, pattern, route] of patterns) {
      const match = patternMethod === method ? pattern.exec(path) : null;
      if (match !== null) return { route, pathParam: match[1] ?? '' };
    }
    return null;
  };
}

function route(family: Family, modelIn: Route['modelIn'], handle: Route['handle']): Route {
  return { family, modelIn, handle, needsKey: true };
}
