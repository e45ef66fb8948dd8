#pragma once
// The page that a run serves to browsers, from page/page.html. Plain function; any thread.

#include <string_view>

namespace troupe {

// HTML, compressed by gzip.
std::string_view dashboard_page();

}  // namespace troupe
