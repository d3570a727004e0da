// Light or dark as the host: Airflow's document says it, else the system does.
export function followHost() {
  const own = document.documentElement;
  let host = null;
  try {
    host = window.parent !== window ? window.parent.document.documentElement : null;
  } catch {
    host = null; // another origin: the system's choice holds
  }
  if (host === null) return;
  const apply = () => {
    const theme = ['dark', 'light'].find((name) => host.classList.contains(name));
    own.style.colorScheme = theme || 'light dark';
  };
  new MutationObserver(apply).observe(host, { attributes: true, attributeFilter: ['class', 'data-theme', 'style'] });
  apply();
}

// Open a page of the host. Its frame may not navigate it, but a link of the host's own document may.
export function openInHost(path) {
  try {
    const page = window.parent.document;
    const link = page.createElement('a');
    link.href = path;
    page.body.append(link);
    link.click();
    link.remove();
  } catch {
    window.location.assign(path);
  }
}
