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

// The address of the host's page ends like ours, so that a reload or a sent link opens the same stream.
export function shareAddress() {
  if (window.parent === window) return;
  try {
    const host = window.parent;
    const shown = location.hash || '#/';
    if ((host.location.hash || '#/') !== shown) host.history.replaceState(host.history.state, '', shown);
  } catch {
    // another origin: its address is its own
  }
}

// The end of the host's address, if it names a stream and our own does not.
export function sharedAddress() {
  try {
    return window.parent !== window && !location.hash ? window.parent.location.hash : '';
  } catch {
    return '';
  }
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
