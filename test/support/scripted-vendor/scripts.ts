/**
 * Parses the script of a response from the model's name. A name is a list of terms joined by `+`, e.g.
 * `echo+slow-200+crlf`. For images and videos, whose names can't contain `+`, the terms are joined by `:`. Unknown
 * terms are ignored, so any model name works, and `rate-limited-once-1+mine` is a separate model. If a known term has
 * an invalid number, we respond with 400.
 *
 * These terms replace the response:
 *   fail-<status>  fail-once-<status>        an error in the dialect's format; with `once`, only the first request of the model fails
 *   refuse-<status>                          an error caused by the request (400, 413, 415, 422)
 *   rate-limited  rate-limited-<seconds>     429 with `retry-after` (1 by default, fractions are allowed)
 *   rate-limited-once-<seconds>              429 for the first request of the model only
 *   rate-limited-ms-<n>                      429 with `retry-after-ms`
 *   rate-limited-date-<seconds>              429 with `retry-after` as an HTTP date
 *   rate-limited-reset-<seconds>             429 that only has the dialect's reset headers
 *   rate-limited-body-<seconds>              429 with the hint in the body (Google's RetryInfo)
 *   rate-limited-bare                        429 without any hint
 *   quota  spend-limit                       429 that doesn't go away by waiting
 *   window-<tokens>                          400 if the request is longer than this context window (a token has four bytes)
 *   not-found                                404 because the path doesn't exist
 *   hang                                     accepts the request but never responds
 *   redirect                                 302 to another origin
 *   garbage  empty  wrong-type               200 with truncated JSON, an empty body, or HTML
 *
 * These terms change how the response is sent. `n` counts deltas. If there are fewer deltas, the response is cut at its
 * end, before the closing events:
 *   slow-<ms>  pace-<ms>                     time before the first byte; time between two deltas
 *   held                                     waits with the first byte until the test calls `release()`
 *   break-before-first  break-after-<n>      closes the socket after the headers or deltas (a plain response with n >= 1 is cut in half)
 *   stall-before-first  stall-after-<n>      sends nothing more after the headers or deltas, but keeps the socket open
 *   error-before-first  error-after-<n>      sends an error event and ends (a plain response is a 500)
 *   end-before-first  end-after-<n>          ends the stream cleanly, but without its closing events
 *   tiny-bytes  crlf                         sends events byte by byte; uses CRLF, comments, and writes that split characters and line ends
 *   no-done                                  sends a chat stream without `[DONE]`
 *
 * These terms change the content of the response:
 *   echo (any other name)                    "You said: ...", or a tool call if the user's text contains the name of one of `tools`
 *   echo-body                                the request body as text
 *   say-<base64url>                          exactly this text
 *   long-<n>  big-<kib>                      this many words; this many KiB
 *   tool  tools-parallel  tools-interleaved  one or two tool calls (chat streams can alternate between their deltas), and text after a tool result
 *   thinks                                   reasoning before the response
 *   filtered                                 a response that was removed by the vendor's content filter
 *   cached-<n>  cache-written-<n>            reports n more input tokens as read from the cache (or written to it, on messages)
 *   no-usage  usage-in-finish                never reports usage; reports it in the last chunk of a chat stream even if nobody asked for it
 *   numbers                                  fields with 1.0, 1e5, 12345678901234567890 and odd white space in every JSON object
 *   b64-only  image-url                      rejects `response_format` for images; always returns a URL
 *   video-polls-<n>  video-fails  video-elsewhere    runs for n polls (2 by default); fails; the file redirects to another origin
 */

/** How a 429 tells the client to wait, and for how long. */
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
  /** The name of the model, as in the request. */
  readonly model: string;
  /** The first term that we know but whose number is invalid, if any. */
  readonly invalidTerm: string | null;
  readonly fault: Fault | null;
  /** Only the first request of this model gets the fault. */
  readonly once: boolean;
  /** Where the response is cut. This is after so many deltas, or before the first one if `after` is null. */
  readonly cut: { readonly kind: 'break' | 'stall' | 'error' | 'end'; readonly after: number | null } | null;
  readonly slowMs: number;
  readonly held: boolean;
  /** Time between two events. If it's null, the vendor decides. */
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

/** Parses a model's name. Results are cached, so you may get the same object again. */
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
  // Longer prefixes come first, e.g. `rate-limited-ms-` before `rate-limited-`.
  const prefix = prefixes.find((candidate) => term.startsWith(candidate));
  if (prefix === undefined) return script;
  const rest = term.slice(prefix.length);
  const amount = /^\d+(\.\d+)?$/.test(rest) ? Number(rest) : Number.NaN;
  const numbered = numberedTerms[prefix]?.(amount, script);
  return numbered === undefined || !(amount <= maxAmount) ? { ...script, invalidTerm: term } : { ...script, ...numbered };
}

/** This has to be a map, because a model may have a name like `constructor`. */
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

/** The terms that end with a number. A function returns undefined if the number is out of range. */
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
