/**
 * Parses the script of a response from the model's name. A name is a list of terms joined by `+` (`echo+slow-200+crlf`), or by `:` where
 * names may not contain `+` (images, videos). Unknown terms are ignored, so any model name works and `rate-limited-once-1+mine` is a
 * separate model. A term with an invalid number is rejected with 400.
 *
 * Instead of a response
 *   fail-<status>  fail-once-<status>        an error in the dialect's format; `once`: only the first request of this model
 *   refuse-<status>                          an error caused by the request (400, 413, 415, 422)
 *   rate-limited  rate-limited-<seconds>     429 with `retry-after` (1 when not given; fractions allowed)
 *   rate-limited-once-<seconds>              429 for the first request of this model only
 *   rate-limited-ms-<n>                      429 with `retry-after-ms`
 *   rate-limited-date-<seconds>              429 with `retry-after` as an HTTP date
 *   rate-limited-reset-<seconds>             429 with the dialect's reset headers only
 *   rate-limited-body-<seconds>              429 with the hint in the body (Google's RetryInfo)
 *   rate-limited-bare                        429 without any hint
 *   quota  spend-limit                       429 that does not end by waiting
 *   window-<tokens>                          400 when the request is longer than this context window (four bytes are a token)
 *   not-found                                404: this path does not exist
 *   hang                                     accepts the request, never responds
 *   redirect                                 302 to another origin
 *   garbage  empty  wrong-type               200 with truncated JSON, with an empty body, with HTML
 *
 * During the response: `n` counts deltas; a response with fewer deltas is cut at its end, before the closing events
 *   slow-<ms>  pace-<ms>                     first byte after ms; ms between two deltas
 *   held                                     first byte when `release()` is called, which only the vendor's own process can do
 *   break-before-first  break-after-<n>      headers sent, then the socket is closed (a plain response with n >= 1: half of it)
 *   stall-before-first  stall-after-<n>      the same, but the socket stays open and silent
 *   error-before-first  error-after-<n>      an error event, then the end (a plain response: 500)
 *   end-before-first  end-after-<n>          the stream ends cleanly, without its closing events
 *   tiny-bytes  crlf                         events byte by byte; CRLF, comments, and writes that split characters and line ends
 *   no-done                                  a chat stream without `[DONE]`
 *
 * Content of the response
 *   echo (any other name)                    "You said: ..."; calls a tool when the user's text names one of `tools`
 *   echo-body                                the request body as text
 *   say-<base64url>                          exactly this text
 *   long-<n>  big-<kib>                      n terms; this many KiB
 *   tool  tools-parallel  tools-interleaved  one or two tool calls (interleaved: chat streams alternate between their deltas); text after a tool result
 *   thinks                                   reasoning precedes the response
 *   filtered                                 the vendor's content filter removed the response
 *   cached-<n>  cache-written-<n>            n more input tokens, reported as read from (messages: written to) the cache
 *   no-usage  usage-in-finish                never usage; chat streams: usage in the finishing chunk, requested or not
 *   numbers                                  members with 1.0, 1e5, 12345678901234567890 and odd white space in every JSON object returned
 *   b64-only  image-url                      images: `response_format` is rejected; always a URL
 *   video-polls-<n>  video-fails  video-elsewhere    running for n polls (2); ends as failed; the file redirects to another origin
 */

/** The wait that a 429 asks for, and how it is sent. */
export type RetryHint =
  | { readonly form: 'seconds' | 'milliseconds' | 'date' | 'reset' | 'body'; readonly amount: number }
  | { readonly form: 'none' };

export type Fault =
  | { readonly kind: 'status' | 'refuse'; readonly status: number }
  | { readonly kind: 'rate-limited'; readonly hint: RetryHint }
  | { readonly kind: 'window'; readonly tokens: number }
  | { readonly kind: 'quota' | 'spend-limit' | 'not-found' | 'hang' | 'redirect' | 'garbage' | 'empty' | 'wrong-type' };

export type Content =
  | { readonly kind: 'echo' | 'body' | 'tool' | 'tools-parallel' | 'tools-interleaved' }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'terms' | 'kibibytes'; readonly count: number };

export interface Script {
  /** The complete name, as the caller sent it. */
  readonly model: string;
  /** A known term with an invalid number, or null if all terms are valid. */
  readonly invalidTerm: string | null;
  readonly fault: Fault | null;
  /** Only the first request of this model gets the fault. */
  readonly once: boolean;
  /** How the response is cut off and after how many deltas. If `after` is null, it is cut off before the first one. */
  readonly cut: { readonly kind: 'break' | 'stall' | 'error' | 'end'; readonly after: number | null } | null;
  readonly slowMs: number;
  readonly held: boolean;
  /** Null means the vendor's default pace. */
  readonly paceMs: number | null;
  readonly wire: 'plain' | 'tiny-bytes' | 'crlf';
  readonly done: boolean;
  readonly content: Content;
  readonly thinks: boolean;
  readonly filtered: boolean;
  readonly cachedTokens: number;
  readonly cacheWrittenTokens: number;
  readonly usage: 'normal' | 'none' | 'in-finish';
  readonly numbers: boolean;
  readonly image: 'normal' | 'b64-only' | 'url';
  readonly video: { readonly polls: number; readonly fails: boolean; readonly elsewhere: boolean };
}

const maxCachedScripts = 1_000;
const maxAmount = 10_000_000;
const scriptsByModel = new Map<string, Script>();

/** Parses a model's name. Returns the same object for the same name while it is cached. */
export function parseScript(model: string): Script {
  const cached = scriptsByModel.get(model);
  if (cached !== undefined) return cached;
  const script = model.split(/[+:]/).reduce(applyTerm, { ...defaultScript, model });
  if (scriptsByModel.size >= maxCachedScripts) scriptsByModel.clear();
  scriptsByModel.set(model, script);
  return script;
}

const defaultScript: Script = {
  model: '',
  invalidTerm: null,
  fault: null,
  once: false,
  cut: null,
  slowMs: 0,
  held: false,
  paceMs: null,
  wire: 'plain',
  done: true,
  content: { kind: 'echo' },
  thinks: false,
  filtered: false,
  cachedTokens: 0,
  cacheWrittenTokens: 0,
  usage: 'normal',
  numbers: false,
  image: 'normal',
  video: { polls: 2, fails: false, elsewhere: false },
};

function applyTerm(script: Script, term: string): Script {
  const change = exactTerms.get(term);
  if (change !== undefined) return { ...script, ...change };
  if (term === 'video-fails') return { ...script, video: { ...script.video, fails: true } };
  if (term === 'video-elsewhere') return { ...script, video: { ...script.video, elsewhere: true } };
  if (term.startsWith('say-')) {
    return { ...script, content: { kind: 'text', text: Buffer.from(term.slice(4), 'base64url').toString('utf8') } };
  }
  // The longest prefix comes first, e.g. `rate-limited-ms-` before `rate-limited-`.
  const prefix = prefixes.find((candidate) => term.startsWith(candidate));
  if (prefix === undefined) return script;
  const rest = term.slice(prefix.length);
  const amount = /^\d+(\.\d+)?$/.test(rest) ? Number(rest) : Number.NaN;
  const numbered = numberedTerms[prefix]?.(amount, script);
  return numbered === undefined || !(amount <= maxAmount) ? { ...script, invalidTerm: term } : { ...script, ...numbered };
}

/** We use a map instead of an object, because a model may be called `constructor`. */
const exactTerms: ReadonlyMap<string, Partial<Script>> = new Map<string, Partial<Script>>(
  Object.entries({
    'rate-limited': { fault: rateLimited('seconds', 1) },
    'rate-limited-bare': { fault: { kind: 'rate-limited', hint: { form: 'none' } } },
    quota: { fault: { kind: 'quota' } },
    'spend-limit': { fault: { kind: 'spend-limit' } },
    'not-found': { fault: { kind: 'not-found' } },
    hang: { fault: { kind: 'hang' } },
    redirect: { fault: { kind: 'redirect' } },
    garbage: { fault: { kind: 'garbage' } },
    empty: { fault: { kind: 'empty' } },
    'wrong-type': { fault: { kind: 'wrong-type' } },
    'break-before-first': { cut: { kind: 'break', after: null } },
    'stall-before-first': { cut: { kind: 'stall', after: null } },
    'error-before-first': { cut: { kind: 'error', after: null } },
    'end-before-first': { cut: { kind: 'end', after: null } },
    held: { held: true },
    'tiny-bytes': { wire: 'tiny-bytes' },
    crlf: { wire: 'crlf' },
    'no-done': { done: false },
    'echo-body': { content: { kind: 'body' } },
    tool: { content: { kind: 'tool' } },
    'tools-parallel': { content: { kind: 'tools-parallel' } },
    'tools-interleaved': { content: { kind: 'tools-interleaved' } },
    thinks: { thinks: true },
    filtered: { filtered: true },
    'no-usage': { usage: 'none' },
    'usage-in-finish': { usage: 'in-finish' },
    numbers: { numbers: true },
    'b64-only': { image: 'b64-only' },
    'image-url': { image: 'url' },
  } satisfies Record<string, Partial<Script>>),
);

/** Parses terms that end in a number. Returns undefined if the number is out of range. */
const numberedTerms: Readonly<Record<string, (amount: number, script: Script) => Partial<Script> | undefined>> = {
  'fail-once-': (status) => (isErrorStatus(status) ? { fault: { kind: 'status', status }, once: true } : undefined),
  'fail-': (status) => (isErrorStatus(status) ? { fault: { kind: 'status', status } } : undefined),
  'refuse-': (status) => (isErrorStatus(status) ? { fault: { kind: 'refuse', status } } : undefined),
  'rate-limited-once-': (seconds) => ({ fault: rateLimited('seconds', seconds), once: true }),
  'rate-limited-ms-': (milliseconds) => ({ fault: rateLimited('milliseconds', milliseconds) }),
  'rate-limited-date-': (seconds) => ({ fault: rateLimited('date', seconds) }),
  'rate-limited-reset-': (seconds) => ({ fault: rateLimited('reset', seconds) }),
  'rate-limited-body-': (seconds) => ({ fault: rateLimited('body', seconds) }),
  'rate-limited-': (seconds) => ({ fault: rateLimited('seconds', seconds) }),
  'window-': (tokens) => ({ fault: { kind: 'window', tokens } }),
  'slow-': (slowMs) => ({ slowMs }),
  'pace-': (paceMs) => ({ paceMs }),
  'break-after-': (after) => ({ cut: { kind: 'break', after } }),
  'stall-after-': (after) => ({ cut: { kind: 'stall', after } }),
  'error-after-': (after) => ({ cut: { kind: 'error', after } }),
  'end-after-': (after) => ({ cut: { kind: 'end', after } }),
  'long-': (count) => (count <= 1_000_000 ? { content: { kind: 'terms', count } } : undefined),
  'big-': (count) => (count <= 65_536 ? { content: { kind: 'kibibytes', count } } : undefined),
  'cached-': (cachedTokens) => ({ cachedTokens }),
  'cache-written-': (cacheWrittenTokens) => ({ cacheWrittenTokens }),
  'video-polls-': (polls, script) => ({ video: { ...script.video, polls } }),
};

const prefixes = Object.keys(numberedTerms).sort((left, right) => right.length - left.length);

function rateLimited(form: 'seconds' | 'milliseconds' | 'date' | 'reset' | 'body', amount: number): Fault {
  return { kind: 'rate-limited', hint: { form, amount } };
}

function isErrorStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 400 && status <= 599;
}
