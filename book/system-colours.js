// The book is light or dark as the system says, and has no switch. The theme keeps what it finds at the first visit,
// and would show that for ever. This runs before the theme looks for it.
try {
  for (const key of Object.keys(localStorage)) {
    if (key.endsWith(".__palette")) localStorage.removeItem(key);
  }
} catch {
  // Without storage nothing is kept.
}
