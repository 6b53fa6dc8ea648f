// Scroll the menu to the page that is read: of fifty decisions only the first ones are in sight.
window.addEventListener("load", () => {
  const menu = document.querySelector(".sidebar-scroll");
  const here = menu?.querySelector(".current-page > a");
  if (here) {
    const below = here.getBoundingClientRect().top - menu.getBoundingClientRect().top;
    if (below > menu.clientHeight * 0.8) menu.scrollTop += below - menu.clientHeight / 2;
  }
});
