// Reads the chosen file into the text area, so that the form doesn't have to upload files.
for (const holder of document.querySelectorAll('[data-file-for]')) {
  const area = document.getElementById(holder.dataset.fileFor);
  const input = holder.querySelector('input');
  holder.hidden = false;
  input.addEventListener('change', async () => {
    const [file] = input.files;
    if (file) area.value = await file.text();
  });
}
