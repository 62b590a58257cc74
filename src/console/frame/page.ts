/** Renders the document around every page: header, navigation, notice and heading. */
import type { Person } from '../../people/person.ts';
import type { Preferences } from '../../people/preferences.ts';
import { type Asset, consoleScript, htmx, icon, styleSheet } from './assets.ts';
import { notice } from './figures.ts';
import { actionButton, csrfField } from './form.ts';
import { type Html, html, raw } from './html.ts';
import type { NavGroup } from './nav.ts';
import { paletteScript, searchButton } from './palette.ts';
import type { PageContent, Undo } from './route.ts';

export interface Frame {
  readonly person: Person | null;
  /** Null to follow the browser's colour scheme. */
  readonly theme: Preferences['theme'];
  /** The path and query of the page, to return there after a change of the theme. */
  readonly path: string;
  readonly csrfToken: string;
  readonly nav: readonly NavGroup[];
  /** The project that the page belongs to, or else the one that the person visited last. */
  readonly project: { readonly slug: string; readonly name: string } | null;
  /** The projects in the project switcher. Each `href` leads to the same page in that project. */
  readonly projects: readonly { readonly slug: string; readonly name: string; readonly href: string }[];
  readonly notice: { readonly text: Html | string; readonly tone: 'good' | 'bad'; readonly undo?: Undo } | null;
}

/** Our Content-Security-Policy forbids the inline styles that htmx would add. */
const htmxConfig = '{"includeIndicatorCSS": false, "history": true}';

export function renderDocument(page: PageContent, frame: Frame): Html {
  const { title, scripts = [], styles = [] } = page;
  return html`${raw('<!doctype html>')}
<html lang="en"${frame.theme === null ? '' : html` data-theme="${frame.theme}"`}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="${frame.theme ?? 'light dark'}">
<meta name="htmx-config" content='${raw(htmxConfig)}'>
<title>${title}${frame.project === null ? '' : ` · ${frame.project.name}`} · Gateway</title>
<link rel="icon" href="${icon.href}" type="image/svg+xml">
<link rel="stylesheet" href="${styleSheet.href}">${styles.map(({ href }) => html`<link rel="stylesheet" href="${href}">`)}
${[htmx, consoleScript, paletteScript, ...scripts].map((script: Asset) => html`<script src="${script.href}" defer></script>`)}
</head>
<body${frame.person === null ? html` class="plain"` : ''}>
<a class="skip" href="#main">Skip to content</a>
${frame.person === null ? plainHeader() : header(frame, frame.person)}
${frame.person === null ? '' : sidebar(frame)}
<main id="main" tabindex="-1">
${breadcrumbs(page)}<div class="page-head"><h1>${title}</h1>${page.actions === undefined ? '' : html`<div class="actions">${page.actions}</div>`}</div>
${frame.notice === null ? '' : noticeWithUndo(frame, frame.notice)}
${page.content}
</main>
</body>
</html>`;
}

function noticeWithUndo(context: Frame, { text, tone, undo }: NonNullable<Frame['notice']>): Html {
  if (undo === undefined) return notice(text, tone);
  const button = actionButton({ context, action: undo.action, label: 'Undo', ...(undo.values && { values: undo.values }) });
  return html`<div class="notice ${tone} with-action" role="status"><p>${text}</p>${button}</div>`;
}

function plainHeader(): Html {
  return html`<header class="top">${brand()}</header>`;
}

function brand(): Html {
  return html`<a class="brand" href="/console"><img src="${icon.href}" alt="" width="22" height="22">Gateway</a>`;
}

function header(frame: Frame, person: Person): Html {
  return html`<header class="top"><button class="button plain menu-button" type="button" popovertarget="navigation">Menu</button>${brand()}
${projectSwitcher(frame)}
${frame.project === null ? '' : searchButton(frame.project.slug)}
<details class="menu person" name="menu"><summary><span class="hidden">Your account: </span><span class="avatar" aria-hidden="true">${initials(person)}</span><span class="menu-label person-name">${person.name || person.email}</span></summary>
<div class="menu-items"><p class="muted">${person.email}${person.isAdmin ? html`<br>Deployment admin` : ''}</p><a href="/console/account">Account</a>
${themeSwitch(frame)}
<form method="post" action="/console/sign-out">${csrfField(frame)}<button class="menu-item">Sign out</button></form></div></details></header>`;
}

const themeLabels = [
  ['', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;

function themeSwitch(frame: Frame): Html {
  return html`<form class="theme-switch" method="post" action="/console/account/theme" role="group" aria-label="Theme">${csrfField(frame)}<input type="hidden" name="next" value="${frame.path}">${themeLabels.map(
    ([value, label]) =>
      html`<button class="segment" name="theme" value="${value}" aria-pressed="${value === (frame.theme ?? '') ? 'true' : 'false'}">${label}</button>`,
  )}</form>`;
}

function projectSwitcher({ project, projects }: Frame): Html | string {
  if (projects.length === 0) return '';
  return html`<details class="menu projects" name="menu"><summary><span class="hidden">Project: </span><span class="menu-label">${project?.name ?? 'Choose a project'}</span></summary>
<nav class="menu-items" aria-label="Projects">${projects.map(
    ({ slug, name, href }) =>
      html`<a href="${href}"${slug === project?.slug ? html` aria-current="true"` : ''}>${name}${
        name === slug ? '' : html` <span class="muted">${slug}</span>`
      }</a>`,
  )}</nav></details>`;
}

function sidebar({ nav }: Frame): Html {
  return html`<nav class="sidebar" id="navigation" popover aria-label="Console">${nav.map(
    ({ label, links }) =>
      html`<p class="nav-group" id="nav-${label.toLowerCase()}">${label}</p><ul aria-labelledby="nav-${label.toLowerCase()}">${links.map(
        (link) => html`<li><a href="${link.href}"${link.isCurrent ? html` aria-current="page"` : ''}>${link.label}</a></li>`,
      )}</ul>`,
  )}</nav>`;
}

function breadcrumbs({ breadcrumbs: items = [] }: PageContent): Html | string {
  if (items.length === 0) return '';
  return html`<nav class="breadcrumbs" aria-label="Breadcrumbs"><ol>${items.map(({ label, href }) => html`<li><a href="${href}">${label}</a></li>`)}</ol></nav>`;
}

function initials({ name, email }: Person): string {
  const [first = '', second = ''] = (name || email).split(/[\s.@]+/u);
  return `${first.at(0) ?? ''}${second.at(0) ?? ''}`.toUpperCase();
}
