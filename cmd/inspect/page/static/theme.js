// Runs before anything is drawn, so that nobody who wants it dark sees it light first.
"use strict";
{
  const kept = () => {
    try {
      return localStorage.getItem("kube-vmap-theme");
    } catch {
      return null; // not every browser lets pages keep something
    }
  };
  const theme = kept();
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
