#pragma once
// The pages for browsers, which page/build.py makes. Plain functions; any thread.

#include <string_view>

namespace troupe {

// What a run serves: HTML, compressed by gzip.
std::string_view dashboard_page();
// The same page for the runs in folders, which `troupe dash` serves.
std::string_view dash_page();

}  // namespace troupe
