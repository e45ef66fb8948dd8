#include <algorithm>
#include <optional>

#include "models/decoder/attention.h"
#include "models/decoder/attention_rows.h"
#include "runtime/base/errors.h"

namespace troupe {
namespace {

constexpr int64_t kBackwardBlockQueries = 48;

// One key head: its keys and values in the other of the two layouts of KvLayer, and their gradients. Those from queries
// that have a cell in their prefix are kept per sequence, so that sequences can be computed at the same time.
struct HeadGradient {
  FloatBuffer keys;                            // [panels_of(head_dim), cells, kPanel]
  FloatBuffer values;                          // [cells / kPanel, head_dim, kPanel]
  FloatBuffer d_keys, d_values;                // [cells, head_dim]
  FloatBuffer d_prefix_keys, d_prefix_values;  // [prefix sizes of all sequences, head_dim]

  HeadGradient(const LmShape& shape, int64_t kv_head, const KvLayer& cells, int64_t prefixes) {
    const int64_t dim = shape.head_dim, count = cells.cells();
    keys.resize(padded(dim) * count);
    values.resize(dim * count);
    std::ranges::fill(keys.span(), 0.0f);
    for (int64_t cell = 0; cell < count; ++cell)
      for (int64_t d = 0; d < dim; ++d) {
        const int64_t by_cell = (cell / kPanel * dim + d) * kPanel + cell % kPanel;
        const int64_t by_dimension = (d / kPanel * count + cell) * kPanel + d % kPanel;
        keys.data()[by_dimension] = cells.keys(kv_head)[by_cell];
        values.data()[by_cell] = cells.values(kv_head)[by_dimension];
      }
    for (FloatBuffer* sums : {&d_keys, &d_values}) sums->resize(count * dim);
    for (FloatBuffer* sums : {&d_prefix_keys, &d_prefix_values}) sums->resize(prefixes * dim);
    for (FloatBuffer* sums : {&d_keys, &d_values, &d_prefix_keys, &d_prefix_values})
      std::ranges::fill(sums->span(), 0.0f);
  }
};

struct BackwardScratch {
  FloatBuffer queries, d_out, products, p, d_scores, d_queries;
};

// The queries of one sequence that share a key head.
class SequenceGradient {
 public:
  // first_prefix: the sequence's first row of HeadGradient::d_prefix_*.
  SequenceGradient(const LmShape& shape, int64_t kv_head, const KvLayer& cells, HeadGradient& head,
                   int64_t first_prefix, BackwardScratch& scratch)
      : shape_(shape),
        kv_head_(kv_head),
        cells_(cells),
        head_(head),
        first_prefix_(first_prefix),
        s_(scratch),
        kernels_(lm_kernels()) {}

  // Adds the gradients of keys and values from a block's queries; writes the queries' own.
  void add(const TokenBlock& block, const AttentionState& state, const AttentionGradient& gradient) const {
    const AttentionRows rows(shape_, block, kv_head_);
    const int64_t dim = shape_.head_dim, width = padded(dim), all = rows.rows() * rows.stride();
    for (FloatBuffer* buffer : {&s_.queries, &s_.d_out}) buffer->resize(rows.rows() * dim);
    for (FloatBuffer* buffer : {&s_.products, &s_.p, &s_.d_scores}) buffer->resize(all);
    s_.d_queries.resize(rows.rows() * width);
    rows.gather(gradient.queries, gradient.query_stride, s_.queries.data());
    rows.gather(gradient.d_out, shape_.query_width(), s_.d_out.data());
    rows.score(kernels_, s_.queries.data(), cells_, s_.products.data(), s_.p.data());
    for (int64_t r = 0; r < rows.rows(); ++r) {
      const int64_t at = rows.token(r) * shape_.heads + rows.head(r);
      float* p = s_.p.data() + r * rows.stride();
      kernels_.probabilities(p, state.max.data()[at], 1.0f / state.sum.data()[at], rows.keys(r), p);
      std::fill(p + rows.keys(r), p + block.most_keys(), 0.0f);
    }
    differentiate_scores(block, rows);
    for (const KeyRange& range : ranges_of(block)) add_range(block, rows, range);
    rows.weighted_sums(kernels_, s_.d_scores.data(), block.most_keys(), head_.keys.data(), cells_.cells(),
                       s_.d_queries.data());
    const int64_t qkv = shape_.query_width() + 2 * shape_.kv_width();
    for (int64_t r = 0; r < rows.rows(); ++r)
      std::copy_n(s_.d_queries.data() + r * width, dim, gradient.d_qkv + rows.token(r) * qkv + rows.head(r) * dim);
  }

 private:
  // The gradient of a row's probabilities is d_out . value; their mean under p is subtracted. It equals d_out . out,
  // but is computed from the same products, so that their rounding errors cancel where one key has nearly all of p.
  void differentiate_scores(const TokenBlock& block, const AttentionRows& rows) const {
    for (const KeyRange& range : ranges_of(block)) {
      const int64_t from = rows.multiply(kernels_, s_.d_out.data(), head_.values.data(), range, s_.products.data());
      for (int64_t r = 0; r < rows.rows(); ++r)
        std::copy_n(s_.products.data() + r * rows.stride() + from, range.end - range.begin,
                    s_.d_scores.data() + r * rows.stride() + range.order);
    }
    for (int64_t r = 0; r < rows.rows(); ++r) {
      const float* p = s_.p.data() + r * rows.stride();
      float* d_scores = s_.d_scores.data() + r * rows.stride();
      const float mean = kernels_.dot(p, d_scores, rows.keys(r));
      kernels_.softmax_backward(p, d_scores, mean, rows.factor(), block.most_keys(), d_scores);
    }
  }

  void add_range(const TokenBlock& block, const AttentionRows& rows, const KeyRange& range) const {
    const int64_t dim = shape_.head_dim;
    const bool prefix = range.order < block.sequence->prefix_size();
    const int64_t first = (prefix ? first_prefix_ : range.begin) * dim;
    add_outer(rows, range, s_.p.data(), s_.d_out.data(),
              (prefix ? head_.d_prefix_values : head_.d_values).data() + first);
    add_outer(rows, range, s_.d_scores.data(), s_.queries.data(),
              (prefix ? head_.d_prefix_keys : head_.d_keys).data() + first);
  }

  // sums[key] += sum over rows r of weights[r, key] right[r], for the keys of a range.
  void add_outer(const AttentionRows& rows, const KeyRange& range, const float* weights, const float* right,
                 float* sums) const {
    kernels_.product({.a = weights + range.order,
                      .a_row_stride = 1,
                      .a_k_stride = rows.stride(),
                      .rows = right,
                      .row_stride = shape_.head_dim,
                      .m = range.end - range.begin,
                      .n = shape_.head_dim,
                      .k = rows.rows(),
                      .c = sums,
                      .c_stride = shape_.head_dim,
                      .continued = true},
                     product_scratch());
  }

  const LmShape& shape_;
  int64_t kv_head_;
  const KvLayer& cells_;
  HeadGradient& head_;
  int64_t first_prefix_;
  BackwardScratch& s_;
  const LmKernels& kernels_;
};

// Adds up a head's gradients over the sequences, in their order, and writes them.
void write_head(const LmShape& shape, std::span<const LmSequence> sequences, int64_t kv_head, HeadGradient& head,
                float* d_qkv) {
  const LmKernels& kernels = lm_kernels();
  const int64_t dim = shape.head_dim, qkv = shape.query_width() + 2 * shape.kv_width();
  int64_t prefix = 0, token = 0;
  for (const LmSequence& s : sequences) {
    const int64_t to = s.prefix_begin * dim, from = prefix * dim, count = s.prefix_size() * dim;
    kernels.add(head.d_prefix_keys.data() + from, count, head.d_keys.data() + to);
    kernels.add(head.d_prefix_values.data() + from, count, head.d_values.data() + to);
    prefix += s.prefix_size();
    token += s.tokens;
  }
  for (int64_t i = 0; i < token; ++i) {
    float* to = d_qkv + i * qkv + shape.query_width() + kv_head * dim;
    std::copy_n(head.d_keys.data() + i * dim, dim, to);
    std::copy_n(head.d_values.data() + i * dim, dim, to + shape.kv_width());
  }
}

}  // namespace

void attend_backward(const LmShape& shape, std::span<const LmSequence> sequences, const KvLayer& cells,
                     const AttentionState& state, const AttentionGradient& gradient, ParallelFor& parallel) {
  std::vector<int64_t> first_prefix, first_token;
  int64_t prefixes = 0, tokens = 0;
  for (const LmSequence& s : sequences) {
    TROUPE_CHECK(s.own_before == 0 && s.own_begin == tokens, "own_begin", s.own_begin, "own_before", s.own_before,
                 "first token", tokens);
    first_prefix.push_back(prefixes);
    first_token.push_back(tokens);
    prefixes += s.prefix_size();
    tokens += s.tokens;
  }
  std::vector<std::optional<HeadGradient>> heads(static_cast<size_t>(shape.kv_heads));
  parallel.run(shape.kv_heads,
               [&](int64_t kv_head) { heads[static_cast<size_t>(kv_head)].emplace(shape, kv_head, cells, prefixes); });
  parallel.run(static_cast<int64_t>(sequences.size()) * shape.kv_heads, [&](int64_t task) {
    thread_local BackwardScratch scratch;
    const auto sequence = static_cast<size_t>(task / shape.kv_heads);
    const int64_t kv_head = task % shape.kv_heads;
    const SequenceGradient sum(shape, kv_head, cells, *heads[static_cast<size_t>(kv_head)], first_prefix[sequence],
                               scratch);
    for (TokenBlock block : token_blocks(sequences.subspan(sequence, 1), shape.group(), kBackwardBlockQueries)) {
      block.first_token += first_token[sequence];
      sum.add(block, state, gradient);
    }
  });
  parallel.run(shape.kv_heads, [&](int64_t kv_head) {
    write_head(shape, sequences, kv_head, *heads[static_cast<size_t>(kv_head)], gradient.d_qkv);
  });
}

}  // namespace troupe
