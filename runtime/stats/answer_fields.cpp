// The part of snapshot_fields() about answers of a language model, besides those of the sample ledger.

#include <array>

#include "runtime/stats/field_access.h"

namespace troupe {
namespace {

using S = StatsSnapshot;

template <auto member>
constexpr FieldAccess of_answers = of_part<&S::answers, member>;

template <auto member>
constexpr FieldAccess of_all_starts = of_token_runs<&S::answers, member>;

constexpr const char* kAnswers = "Answers";
constexpr const char* kAnswered = "token runs, after the first answer";

constexpr std::array kAnswerFields = {
    SnapshotField{kAnswers, "answers.tokens", "answers_tokens_total", "tokens", "token runs",
                  "of the answers that reached replay, over all starts", of_all_starts<&AnswerFigures::tokens>,
                  shown("tokens of answers")},
    SnapshotField{kAnswers, "answers.trained_tokens", "answers_trained_tokens_total", "tokens", "token runs",
                  "of the answers that updates trained on, over all starts, without masked tokens; an answer that "
                  "several updates use counts once",
                  of_all_starts<&AnswerFigures::trained_tokens>, shown("trained tokens")},
    SnapshotField{kAnswers, "answers.cut_fraction", "answers_cut_ratio", "0 to 1", kAnswered,
                  "share of the newest answers that reached `generation.max_tokens` before they ended: of as many as "
                  "`stats.window`, or as `trainer.super_batch` if that is more, and the rest of the group of the first",
                  of_answers<&AnswerFigures::cut_fraction>, shown("answers cut off", Better::down)},
    SnapshotField{kAnswers, "answers.turns_mean", "answers_turns_mean", "turns", kAnswered,
                  "mean number of turns (`task.turns`) of the answers that reached replay, since the start of the "
                  "process (deterministic runs: of the run); a turn counts if the message before it has a token",
                  of_answers<&AnswerFigures::turns_mean>, shown("mean turns")},
    SnapshotField{kAnswers, "answers.turns_max", "answers_turns_max", "turns", kAnswered, "the most turns of the same",
                  of_answers<&AnswerFigures::turns_max>, shown("most turns")},
    SnapshotField{kAnswers, "answers.length_min", "answers_length_min_tokens", "tokens", kAnswered,
                  "length of the shortest of the newest answers that have a score: as many as `stats.window`, or as "
                  "`trainer.super_batch` if that is more; with several turns, of all turns without messages",
                  of_answers<&AnswerFigures::length_min>, shown("shortest")},
    SnapshotField{kAnswers, "answers.length_p50", "answers_length_p50_tokens", "tokens", kAnswered,
                  "median length of the same answers", of_answers<&AnswerFigures::length_p50>, shown("median")},
    SnapshotField{kAnswers, "answers.length_p95", "answers_length_p95_tokens", "tokens", kAnswered,
                  "95th percentile of the same", of_answers<&AnswerFigures::length_p95>, shown("95th percentile")},
    SnapshotField{kAnswers, "answers.length_max", "answers_length_max_tokens", "tokens", kAnswered,
                  "length of the longest of them", of_answers<&AnswerFigures::length_max>, shown("longest")},
    SnapshotField{
        kAnswers, "answers.groups_alike", "answers_groups_alike_ratio", "0 to 1",
        "token runs, after the first answers to one prompt of which two have a score",
        "share of the groups whose answers all have the same reward, before `replay.filter_groups`: of as many "
        "of the newest groups as 10 updates use; where the answers of a group are compared, these teach "
        "nothing",
        of_answers<&AnswerFigures::groups_alike>, shown("groups with equal rewards", Better::down)},
    SnapshotField{
        kAnswers, "verifier.replied", "verifier_replied_total", "answers", kVerified,
        "to which `task.reply`, or a task in Python, gave a message or no further turn, since the start of the "
        "process",
        of_verifier<&VerifierFigures::replied>, shown("answers replied to")},
    SnapshotField{kAnswers, "verifier.failed_replies", "verifier_failed_replies_total", "answers", kVerified,
                  "on which the reply failed, over the same time: they have no score, and count in "
                  "`ledger.verifier_failed` too",
                  of_verifier<&VerifierFigures::failed_replies>,
                  shown("answers on which the reply failed", Better::down)},
};

}  // namespace

std::span<const SnapshotField> answer_fields() { return kAnswerFields; }

}  // namespace troupe
