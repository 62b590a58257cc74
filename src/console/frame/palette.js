// The command palette, which opens with Ctrl K or the search button. The server finds what matches the typed text.
{
  const button = document.querySelector('[data-palette]');
  let dialog = null;
  let pending = null;
  let timer = 0;

  const create = () => {
    const created = document.createElement('dialog');
    created.className = 'palette';
    created.setAttribute('aria-label', 'Search');
    created.innerHTML = `<input type="search" autocomplete="off" spellcheck="false" aria-label="Id or name"
      placeholder="Call id, task, request id, end user, key, page or project"><div class="palette-results" aria-live="polite"></div>`;
    const [field, results] = created.children;
    field.addEventListener('input', () => {
      clearTimeout(timer);
      timer = setTimeout(() => load(field.value, results), 150);
    });
    created.addEventListener('keydown', (event) => move(event, created, field));
    // A click on the backdrop has the dialog itself as its target.
    created.addEventListener('click', (event) => event.target === created && created.close());
    document.body.append(created);
    return created;
  };

  const load = async (text, results) => {
    pending?.abort();
    pending = new AbortController();
    const { signal } = pending;
    try {
      const response = await fetch(`${button.dataset.palette}?${new URLSearchParams({ q: text })}`, {
        headers: { 'hx-request': 'true' },
        signal,
      });
      const login = response.headers.get('hx-redirect');
      if (login) location.assign(login);
      else results.innerHTML = await response.text();
    } catch (error) {
      if (error.name !== 'AbortError') results.textContent = 'The search failed, because the connection was lost.';
    }
  };

  const move = (event, palette, field) => {
    const links = [...palette.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    if (event.key === 'Enter' && document.activeElement === field && links.length > 0) {
      event.preventDefault();
      links[0].click();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const next = event.key === 'ArrowDown' ? Math.min(at + 1, links.length - 1) : at - 1;
      (next < 0 ? field : links[next])?.focus();
    }
  };

  const open = () => {
    dialog ??= create();
    if (dialog.open) return;
    dialog.showModal();
    const field = dialog.querySelector('input');
    field.select();
    load(field.value, dialog.querySelector('.palette-results'));
  };

  if (button) {
    button.addEventListener('click', (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open();
    });
    document.addEventListener('keydown', (event) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (dialog?.open) dialog.close();
      else open();
    });
  }
}
