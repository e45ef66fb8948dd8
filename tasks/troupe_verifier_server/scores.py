"""What verifiers return, in the types of JSON."""

import math

from troupe_verifier_server.errors import Refused, one_line, place_of, text_of

MOST_REWARD = 1e6  # in magnitude; this and the next two as in tasks/verifier_process.h
MOST_PARTS = 32
LONGEST_NAME = 64  # of a part, in bytes


def counted(scores, items, what_there_are="scores"):
    """The scores, or the replies, as a list. Raises unless there is one for each item."""
    if scores is None or isinstance(scores, (str, bytes, dict)):
        what = "nothing" if scores is None else f"a {type(scores).__name__}"
        raise Refused(f"the verifier returned {what}, expected a list of {len(items)} {what_there_are}")
    scores = list(scores)
    if len(scores) != len(items):
        raise Refused(f"the verifier returned {len(scores)} {what_there_are}, expected {len(items)}")
    return scores


def number(value, what):
    """The value as a finite float. Numbers of numpy and torch are accepted."""
    if isinstance(value, (str, bytes)):
        raise Refused(f"{what} is {ascii(value[:60])}, expected a number")
    try:
        result = float(value)
    except OverflowError:
        raise Refused(f"{what} is too large, expected at most {MOST_REWARD:g} in magnitude") from None
    except Exception:
        raise Refused(f"{what} is of type {type(value).__name__}, expected a number") from None
    if not math.isfinite(result):
        raise Refused(f"{what} is {result}, expected a finite number")
    if abs(result) > MOST_REWARD:
        raise Refused(f"{what} is {result}, expected at most {MOST_REWARD:g} in magnitude")
    return result


def flag(value, what):
    """The value as a truth value: a boolean, also of numpy and torch, or 0 or 1."""
    if number(value, what) not in (0, 1):
        raise Refused(f"{what} is {one_line(value, 60)}, expected true or false")
    return bool(value)


def dict_of(value, what):
    if not isinstance(value, dict):
        raise Refused(f"{what} is of type {type(value).__name__}, expected a dict")
    return value


def is_number(value):
    return hasattr(value, "__float__") and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 0) == 0


def score_of_verl(score):
    """The score of a dict as verl takes them: "score", and other values, of which the numbers are parts."""
    if score["score"] is None:
        return None
    reward = number(score["score"], "the score")
    parts = parts_of({key: value for key, value in score.items() if key != "score" and is_number(value)})
    return {"reward": reward, "right": parts.get("acc", reward) >= 1, "parts": parts}


def parts_of(parts):
    if len(parts) > MOST_PARTS:
        raise Refused(f"the score has {len(parts)} parts, expected at most {MOST_PARTS}")
    plain = {}
    for key, value in parts.items():
        name = str(key).encode("utf-8", "replace").decode()
        if not 0 < len(name.encode()) <= LONGEST_NAME:
            raise Refused(f"a part of the score has a name of {len(name.encode())} bytes, expected 1 to {LONGEST_NAME}")
        plain[name] = number(value, f"part {name!r} of the score")
    return plain


def rewards_of(turns):
    """The rewards of the turns before the last one."""
    if isinstance(turns, (str, bytes, dict)):
        raise Refused(f"the rewards of turns are of type {type(turns).__name__}, expected a list of numbers")
    return [number(reward, f"the reward of turn {i}") for i, reward in enumerate(turns)]


def score_of_dict(score):
    unknown = [key for key in score if key not in ("reward", "right", "parts", "weights", "turns")]
    if unknown or not ("reward" in score or score.get("parts")):
        keys = one_line(list(score), 120)
        raise Refused(f"the score has the keys {keys}, expected reward or parts, and optionally right, weights and turns")
    parts = parts_of(dict_of(score.get("parts", {}), "the value of parts"))
    weights = dict_of(score.get("weights", {}), "the value of weights")
    if "reward" in score:
        if weights:
            raise Refused("the score has a reward, so its weights have no effect; leave one of them out")
        if score["reward"] is None:
            return None
        reward = number(score["reward"], "the reward")
    else:
        unknown = [key for key in weights if str(key) not in parts]
        if unknown:
            raise Refused(f"the score has a weight for {unknown[0]!r}, which is none of its parts {', '.join(parts)}")
        weights = {str(key): number(value, f"weight {key!r} of the score") for key, value in weights.items()}
        reward = number(sum(part * weights.get(name, 1) for name, part in parts.items()), "the reward")
    right = flag(score["right"], "right") if "right" in score else reward >= 1
    turns = {"turns": rewards_of(score["turns"])} if "turns" in score else {}
    return {"reward": reward, "right": right, "parts": parts, **turns}


def plain_score(score, of_verl=False):
    """A score in the types of JSON. One of a wrong form fails that answer alone."""
    try:
        if score is None:
            return None
        if not isinstance(score, dict):
            return number(score, "the score")
        if of_verl and "score" in score:
            return score_of_verl(score)
        return score_of_dict(score)
    except Exception as error:
        return {"failed": text_of(error), "place": place_of(error)}
