#pragma once
// inspect() of what histograms have counted.

#include "runtime/caf/inspect.h"
#include "runtime/stats/histogram.h"

namespace troupe {

template <class I> typename I::result_type inspect(I& f, HistogramCounts& x) {
  WireDouble sum = x.sum;
  return f(caf::meta::type_name("HistogramCounts"), x.buckets, sum, caf::meta::load_callback([&]() -> caf::error {
             x.sum = sum;
             return caf::none;
           }));
}

}  // namespace troupe
