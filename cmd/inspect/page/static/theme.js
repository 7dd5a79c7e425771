// Runs before the first paint, so that a dark page does not flash light.
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
