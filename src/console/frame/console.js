// This script is only for convenience. Every page works without JavaScript.

// A `[data-copy]` button copies the code or text before it. It's only shown if the browser allows access to the
// clipboard.
const showCopyButtons = (root) => {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll('[data-copy]')) button.hidden = false;
};
showCopyButtons(document);
document.addEventListener('htmx:after:swap', () => showCopyButtons(document));
document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]');
  if (button) {
    await navigator.clipboard.writeText(button.parentElement.querySelector('code, [data-copied]').textContent);
    const label = button.textContent;
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = label;
    }, 1500);
  }
  for (const menu of document.querySelectorAll('details.menu[open]')) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  for (const menu of document.querySelectorAll('details.menu[open]')) {
    menu.open = false;
    menu.querySelector('summary').focus();
  }
});
// Disable empty fields of GET forms, which keeps them out of the URL.
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.method !== 'get') return;
  const empty = [...form.elements].filter((field) => field.name && field.value === '' && !field.disabled);
  for (const field of empty) field.disabled = true;
  setTimeout(() => {
    for (const field of empty) field.disabled = false;
  });
});
