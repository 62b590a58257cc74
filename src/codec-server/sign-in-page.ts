/** Renders the codec server's pages, which are plain HTML without scripts. */
import { sha256 } from '../core/sha256.ts';
import { formatTime } from '../core/time.ts';

const style =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}input,button{font:inherit;padding:.4rem .8rem}' +
  'input{width:100%;box-sizing:border-box;margin-bottom:1rem}code{background:#eee;padding:.1rem .3rem}.error{color:#a00}';

/**
 * The headers of all pages. A referrer policy of `no-referrer` would make browsers send forms with `Origin: null`, so
 * don't set it.
 */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${sha256(style).toString('base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  'cross-origin-opener-policy': 'same-origin',
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

export function formatSignInPage(error: string | null): string {
  return formatPage(`${error === null ? '' : `<p class="error" role="alert">${error}</p>\n`}<p>Sign in to read decoded payloads in the Temporal UI.</p>
<form method="post" action="/sign-in">
<label for="token">Admin token</label>
<input id="token" name="token" type="password" autocomplete="off" required autofocus>
<button>Sign in</button>
</form>`);
}

export function formatSignedInPage({ endpoint, until }: { endpoint: string; until: number }): string {
  return formatPage(`<p>You are signed in until ${formatTime(until - (until % 60_000))}. The Temporal UI now shows decoded payloads in this browser.</p>
<p>If it does not: open the codec server settings with the icon in its top bar, choose the browser setting, enter the endpoint
<code>${endpoint}</code>, switch on <b>Include cross-origin credentials</b>, and reload the page.</p>
<form method="post" action="/sign-out"><button>Sign out</button></form>`);
}

function formatPage(content: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Codec server of the gateway</title><style>${style}</style></head>
<body>
<h1>Codec server</h1>
${content}
</body>
</html>
`;
}
