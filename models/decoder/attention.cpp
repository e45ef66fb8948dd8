#include "models/decoder/attention.h"

#include "models/decoder/attention_rows.h"

namespace troupe {
namespace {

// Queries that are computed together: enough to use each key several times, few enough that most keys are common.
constexpr int64_t kBlockQueries = 24;
// Multiplications of a task, about: fewer would not outweigh waking a thread.
constexpr int64_t kTaskWork = 1 << 16;

struct Scratch {
  FloatBuffer queries, products, scores, sums, value;
};

// The keys that only later tokens of a block attend to: those behind the first token's.
void add_later_keys(const LmKernels& kernels, const LmShape& shape, const TokenBlock& block, const AttentionRows& rows,
                    int64_t kv_head, const KvLayer& cells, Scratch& s) {
  const int64_t width = padded(shape.head_dim);
  for (int64_t key = block.fewest_keys(); key < block.most_keys(); ++key) {
    const int64_t cell = block.sequence->own_begin + key - block.sequence->prefix_size();
    for (int64_t panel = 0; panel < panels_of(shape.head_dim); ++panel)
      std::copy_n(cells.values(kv_head) + (panel * cells.cells() + cell) * kPanel, kPanel,
                  s.value.data() + panel * kPanel);
    const int64_t first_row = (key - block.fewest_keys() + 1) * shape.group();
    for (int64_t r = first_row; r < rows.rows(); ++r)
      kernels.add_scaled(s.scores.data()[r * rows.stride() + key], s.value.data(), width, s.sums.data() + r * width);
  }
}

}  // namespace

void attend(const LmShape& shape, std::span<const LmSequence> sequences, const float* queries, int64_t query_stride,
            const KvLayer& cells, float* out, AttentionState& state, ParallelFor& parallel) {
  const LmKernels& kernels = lm_kernels();
  const std::vector<TokenBlock> blocks = token_blocks(sequences, shape.group(), kBlockQueries);
  int64_t tokens = 0, pairs = 0;  // of a token and a cell that it attends to, at most
  for (const LmSequence& sequence : sequences) {
    tokens += sequence.tokens;
    pairs += sequence.tokens * sequence.keys_of(sequence.tokens - 1);
  }
  state.max.resize(tokens * shape.heads);
  state.sum.resize(tokens * shape.heads);
  const auto tasks = static_cast<int64_t>(blocks.size()) * shape.kv_heads;
  const auto compute = [&](int64_t task) {
    thread_local Scratch s;
    const TokenBlock& block = blocks[static_cast<size_t>(task / shape.kv_heads)];
    const int64_t kv_head = task % shape.kv_heads, width = padded(shape.head_dim);
    const AttentionRows rows(shape, block, kv_head);
    s.queries.resize(rows.rows() * shape.head_dim);
    s.products.resize(rows.rows() * rows.stride());
    s.scores.resize(rows.rows() * rows.stride());
    s.sums.resize(rows.rows() * width);
    s.value.resize(width);
    rows.gather(queries, query_stride, s.queries.data());
    rows.score(kernels, s.queries.data(), cells, s.products.data(), s.scores.data());
    for (int64_t r = 0; r < rows.rows(); ++r) {
      const int64_t at = rows.token(r) * shape.heads + rows.head(r);
      kernels.exp_scores(s.scores.data() + r * rows.stride(), rows.keys(r), state.max.data() + at,
                         state.sum.data() + at);
    }
    rows.weighted_sums(kernels, s.scores.data(), block.fewest_keys(), cells.values(kv_head), cells.cells(),
                       s.sums.data());
    add_later_keys(kernels, shape, block, rows, kv_head, cells, s);
    for (int64_t r = 0; r < rows.rows(); ++r) {
      const int64_t at = rows.token(r) * shape.heads + rows.head(r);
      kernels.scale(s.sums.data() + r * width, 1.0f / state.sum.data()[at], shape.head_dim, out + at * shape.head_dim);
    }
  };
  const int64_t parts = std::clamp<int64_t>(2 * pairs * shape.query_width() / kTaskWork, 1, tasks);
  parallel.run(parts, [&](int64_t part) {
    for (int64_t task = part * tasks / parts; task < (part + 1) * tasks / parts; ++task) compute(task);
  });
}

}  // namespace troupe
