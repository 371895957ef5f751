(function () {
  var root = document.documentElement;
  var key = "palbert-theme";
  try { var kept = localStorage.getItem(key); if (kept) root.dataset.theme = kept; } catch (error) { /* kept for this page only */ }
  document.addEventListener("click", function (event) {
    if (!event.target.closest(".theme")) return;
    var dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem(key, root.dataset.theme); } catch (error) { /* kept for this page only */ }
  });
})();
