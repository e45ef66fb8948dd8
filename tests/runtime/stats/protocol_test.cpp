#include "runtime/stats/protocol.h"
#include "runtime/base/token_bucket.h"
#include "runtime/stats/http.h"

#include <nlohmann/json.hpp>

#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

std::string refusal(const std::string& line) {
  try {
    parse_stats_request(line);
  } catch (const RequestError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("stats_protocol: requests with and without their optional fields") {
  CHECK(parse_stats_request(R"({"type":"ping"})").kind == StatsRequest::Kind::ping);
  CHECK(parse_stats_request(R"({"type":"subscribe"})").topic.empty());
  const StatsRequest request =
      parse_stats_request(R"( {"last": 5, "type": "history", "topic": "lag.p95", "before": 9} )");
  CHECK(request.kind == StatsRequest::Kind::history);
  CHECK(request.topic == "lag.p95");
  CHECK(request.last == 5);
  CHECK(request.before == 9);
  CHECK(parse_stats_request(R"({"type":"history"})").last == 100);
}

TEST_CASE("stats_protocol: an invalid request is refused with the cause") {
  const std::pair<std::string, std::string> cases[] = {
      {"", "request: is empty"},
      {"hello", "request:1:1: not valid JSON"},
      {"{\"type\":\"ping\"", "request:1:15: not valid JSON"},
      {"{\"type\":\"ping\"} x", "request:1:17: not valid JSON"},
      {std::string("{\"type\":\"ping\0\"}", 16), "request:1:14: not valid JSON"},
      {"{\"type\":\"\xff\"}", "request:1:10: not valid JSON"},
      {std::string(60'000, '['), "request: nested deeper than 32 levels"},
      {"[]", "a request is a JSON object"},
      {"1", "a request is a JSON object"},
      {"null", "a request is a JSON object"},
      {"{}", "a request needs a \"type\""},
      {R"({"type":1})", "unknown type 1, known are"},
      {R"({"type":"Ping"})", "unknown type \"Ping\", known are"},
      {R"({"type":"ping","type":"ping"})", "request: type: the key is there twice"},
      {R"({"type":"ping","topic":"x"})", "unknown field \"topic\""},
      {R"({"type":"subscribe","last":1})", "unknown field \"last\""},
      {R"({"type":"subscribe","topic":7})", "topic is not a string"},
      {R"({"type":"subscribe","topic":""})", "topic is empty; leave it out for whole snapshots"},
      {R"({"type":"subscribe","topic":")" + std::string(257, 'x') + "\"}", "topic is longer than 256 bytes"},
      {R"({"type":"history","last":0})", "last is not a whole number from 1 to 100000"},
      {R"({"type":"history","last":-1})", "last is not a whole number"},
      {R"({"type":"history","last":1.5})", "last is not a whole number"},
      {R"({"type":"history","last":"5"})", "last is not a whole number"},
      {R"({"type":"history","last":99999999999999999999})", "last is not a whole number"},
      {R"({"type":"history","before":0})", "before is not a whole number"},
      {R"({"type":"history","topics":[]})", "topics is not a list of 1 to 100 topics"},
      {R"({"type":"history","topics":["a",1]})", "topic is not a string"},
      {R"({"type":"history","topic":"a","topics":["b"]})", "either topic or topics, not both"},
      {R"({"type":"history","topics":["b"],"ranges":1})", "ranges is not true or false"},
      {R"({"type":"history","ranges":true})", "ranges needs topics"},
      {R"({"type":"history","topic":"a","ranges":true})", "ranges needs topics"},
      {R"({"type":"subscribe","ranges":true})", "unknown field \"ranges\""},
      {R"({"type":"subscribe","topics":["b"]})", "unknown field \"topics\""},
      {R"({"type":"metrics","topic":"b"})", "unknown field \"topic\""},
      {R"({"type":"history","lasst":5})", "unknown field \"lasst\""},
  };
  for (const auto& [line, cause] : cases) CHECK_MESSAGE(refusal(line).starts_with(cause), refusal(line));
}

TEST_CASE("stats_protocol: messages are valid JSON, whatever text they contain") {
  const json hello = json::parse(hello_message("my \"run\"", R"({"seed": 2})", R"({"seed": 1})"));
  CHECK(hello["protocol"] == 2);
  CHECK(hello["config"]["seed"] == 2);
  CHECK(hello["defaults"]["seed"] == 1);
  CHECK_FALSE(hello.contains("name"));
  CHECK(json::parse(hello_message("a", "{}", "{}", "", "slow \"live\""))["name"] == "slow \"live\"");
  const std::vector<ExportedMetric> metrics = {exported_metric("lag.p95", "lag_p95", "updates", "a \"lag\"")};
  CHECK(json::parse(metrics_message(metrics))["metrics"] ==
        json::parse(R"([{"path":"lag.p95","name":"troupe_lag_p95","help":"a \"lag\""}])"));
  CHECK(json::parse(error_message("\xff\n"))["type"] == "error");
  CHECK(error_message("a\nb").find('\n') == std::string::npos);
}

TEST_CASE("stats_history: before the first snapshot the reply is a message too") {
  const StatsHistory history(3, 1000);
  CHECK(history.latest_message() == R"({"type":"stats","sequence":0,"stats":null})");
  CHECK(history.has_topic("anything"));
  CHECK(json::parse(history.history_message({}, 1000).message)["points"].empty());
}

TEST_CASE("stats_history: a snapshot that is not an object is not kept") {
  StatsHistory history(3, 1000);
  for (const char* text : {"", "1", "[]", "{", "null", "{\"a\":NaN}"}) CHECK_FALSE(history.add(text));
  CHECK(history.size() == 0);
}

TEST_CASE("stats_history: a snapshot with line breaks becomes one line, keys in their order") {
  StatsHistory history(3, 1000);
  CHECK(history.add("{\n  \"b\": 1,\n  \"a\": 2.5\n}\n"));
  CHECK(history.latest_message() == R"({"type":"stats","sequence":1,"stats":{"b":1,"a":2.5}})");
}

TEST_CASE("stats_history: topics are dotted paths, and keys may hold dots") {
  StatsHistory history(3, 1000);
  history.add(R"({"lag":{"p95":3},"up":{"10.0.0.1:80":{"behind":2}},"x.y":null})");
  CHECK(json::parse(history.topic_message("lag.p95"))["value"] == 3);
  CHECK(json::parse(history.topic_message("lag"))["value"]["p95"] == 3);
  CHECK(json::parse(history.topic_message("up.10.0.0.1:80.behind"))["value"] == 2);
  for (const char* topic : {"x.y", "lag.p95"}) CHECK(history.has_topic(topic));
  for (const char* topic : {"p95", "lag.", ".lag", "lag.p95.x", ".", "..", "lag..p95"})
    CHECK_FALSE(history.has_topic(topic));
}

TEST_CASE("stats_history: number and bytes of snapshots are limited, and the newest are kept") {
  StatsHistory few(3, 1000), small(1000, 20);
  for (int i = 1; i <= 10; ++i) {
    few.add("{\"n\":" + std::to_string(i) + "}");
    small.add("{\"n\":" + std::to_string(i) + "}");
  }
  CHECK(few.size() == 3);
  CHECK(small.size() == 2);
  StatsRequest request;
  request.topic = "n";
  CHECK(few.history_message(request, 1000).message ==
        R"({"type":"history","topic":"n","available":3,"points":[[8,8],[9,9],[10,10]]})");
}

TEST_CASE("stats_history: an evaluation is in one snapshot, the first after the update that was evaluated") {
  StatsHistory history(100, 100'000);
  const auto add = [&](int updates, const std::string& eval) {
    history.add(R"({"updates":)" + std::to_string(updates) + R"(,"eval":)" + eval + R"(,"x":1})");
  };
  const std::string first = R"({"updates":15,"return_mean":1})", second = R"({"updates":16,"return_mean":2})";
  add(10, "null");
  add(20, "null");
  add(30, first);   // ends later than the snapshot after its update
  add(40, second);  // the snapshot that would have it has the first one
  add(50, second);
  CHECK(json::parse(history.latest_message())["stats"]["eval"] == json::parse(second));
  CHECK(json::parse(history.topic_message("eval.return_mean"))["value"] == 2);
  const auto points = [&](const StatsRequest& request) {
    return json::parse(history.history_message(request, 100'000).message)["points"];
  };
  StatsRequest request;
  const json whole = points(request);
  const std::vector<json> expected = {nullptr, json::parse(first), json::parse(second), nullptr, nullptr};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(whole[i][1]["eval"] == expected[i]);
    CHECK(whole[i][1]["x"] == 1);
  }
  request.topics = {"updates", "eval.updates", "eval.return_mean"};
  CHECK(points(request).dump() ==
        "[[1,[10,null,null]],[2,[20,15,1]],[3,[30,16,2]],[4,[40,null,null]],[5,[50,null,null]]]");
  request.topics = {};
  request.topic = "eval";
  request.before = 3;
  CHECK(points(request)[1][1] == json::parse(first));
}

TEST_CASE("stats_history: of more evaluations than snapshots, each snapshot has the newest that it can have") {
  StatsHistory history(100, 10'000'000);
  for (int i = 1; i <= 3000; ++i) {
    const int evaluated = i - 1;
    const std::string eval = evaluated == 0 ? "null" : R"({"updates":)" + std::to_string(evaluated) + "}";
    history.add(R"({"updates":)" + std::to_string(i) + R"(,"eval":)" + eval + "}");
  }
  StatsRequest request;
  request.last = 100'000;
  request.topics = {"updates", "eval.updates"};
  const json points = json::parse(history.history_message(request, 1 << 20).message)["points"];
  REQUIRE(points.size() > 100);
  for (const json& point : points) {
    CAPTURE(point.dump());
    const int updates = point[1][0].get<int>();
    // That of the newest snapshot is not made yet.
    CHECK(point[1][1] == (updates == 3000 ? json() : json(updates)));
  }
}

TEST_CASE("stats_history: evaluations stay known when the snapshots that had them are left out") {
  StatsHistory history(32, 1'000'000);
  for (int i = 1; i <= 5'000; ++i) {
    const int evaluated = i / 500 * 500;
    const std::string eval = evaluated == 0 ? "null" : R"({"updates":)" + std::to_string(evaluated) + "}";
    history.add(R"({"updates":)" + std::to_string(i) + R"(,"eval":)" + eval + "}");
  }
  StatsRequest request;
  request.last = 1000;
  request.topics = {"updates", "eval.updates"};
  std::vector<int> evaluated;
  const json points = json::parse(history.history_message(request, 1'000'000).message)["points"];
  for (const json& point : points)
    if (point[1][1].is_number()) {
      evaluated.push_back(point[1][1]);
      CHECK(point[1][0].get<int>() - evaluated.back() < 256);
    }
  CHECK(evaluated == std::vector<int>{500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500, 5000});
}

TEST_CASE("stats_history: older snapshots become sparser, and stay in order") {
  StatsHistory history(32, 100'000);
  for (int i = 1; i <= 20'000; ++i) history.add("{\"n\":" + std::to_string(i) + "}");
  CHECK(history.size() == 3 * 32);
  StatsRequest request;
  request.topic = "n";
  request.last = 1000;
  const json points = json::parse(history.history_message(request, 100'000).message)["points"];
  REQUIRE(points.size() == 96);
  for (size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i][0] == points[i][1]);
    const int step = i < 32 ? 256 : i < 64 ? 16 : 1;
    CHECK(points[i][0].get<int>() % step == 0);
    if (i > 0) CHECK(points[i][0] > points[i - 1][0]);
  }
  CHECK(points.back()[0] == 20'000);
  request.before = 19'000;
  request.last = 2;
  CHECK(json::parse(history.history_message(request, 1000).message)["points"].dump() ==
        "[[18688,18688],[18944,18944]]");
}

TEST_CASE("stats_history: `last`, `before` and the size limit of a reply restrict the history") {
  StatsHistory history(100, 10'000);
  for (int i = 1; i <= 10; ++i) history.add("{\"n\":" + std::to_string(10 * i) + "}");
  StatsRequest request;
  request.last = 2;
  CHECK(json::parse(history.history_message(request, 1000).message)["points"].dump() ==
        R"([[9,{"n":90}],[10,{"n":100}]])");
  request.topics = {"n", "absent"};
  CHECK(json::parse(history.history_message(request, 1000).message)["points"].dump() ==
        "[[9,[90,null]],[10,[100,null]]]");
  request.topics.clear();
  request.before = 9;
  CHECK(json::parse(history.history_message(request, 1000).message)["points"].dump() ==
        R"([[7,{"n":70}],[8,{"n":80}]])");
  CHECK(json::parse(history.history_message(request, 13).message)["points"].dump() == R"([[8,{"n":80}]])");
  CHECK(json::parse(history.history_message(request, 0).message)["points"].empty());
}

TEST_CASE("token_bucket: it limits the number at once and the number per second") {
  TokenBucket bucket(2, 10);
  const TokenBucket::Clock::time_point start;
  CHECK(bucket.take(1, start));
  CHECK(bucket.take(1, start));
  CHECK_FALSE(bucket.take(1, start));
  CHECK_FALSE(bucket.take(1, start + 99ms));
  CHECK(bucket.take(1, start + 100ms));
  CHECK_FALSE(bucket.take(2.5, start + 100s));
}

namespace {

HttpPages pages(const std::string& text = "page", const std::string& stats = "{}") {
  return {.text = text,
          .html_gz = "compressed",
          .stats = [stats] { return stats; },
          .metrics = [](bool open_metrics) { return std::string(open_metrics ? "open" : "text"); },
          .figures = R"([{"path":"a"}])",
          .own_hosts = {}};
}

}  // namespace

TEST_CASE("stats_http: the pages have their length, and no body for HEAD") {
  const std::string answer = http_response("GET /stats?x HTTP/1.1\r\nHost: localhost", pages());
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json"));
  CHECK(answer.find("\r\nContent-Length: 3\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n{}\n"));
  CHECK(http_response("GET / HTTP/1.0", pages()).ends_with("\r\n\r\npage"));
  CHECK(http_response("GET /health HTTP/1.1", {}).ends_with("\r\n\r\nok\n"));  // asks nobody for figures
  CHECK(http_response("GET /figures.json HTTP/1.1", pages()).ends_with("\r\n\r\n[{\"path\":\"a\"}]\n"));
  CHECK(http_response("GET /figures.json HTTP/1.1", {}).ends_with("\r\n\r\n[]\n"));
  const std::string head = http_response("HEAD / HTTP/1.1", pages());
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(head.find("Content-Length: 4\r\n") != std::string::npos);
}

TEST_CASE("stats_http: browsers get HTML, other programs text") {
  const auto answer = [](const std::string& headers) { return http_response("GET / HTTP/1.1\r\n" + headers, pages()); };
  const std::string html = answer("Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: deflate, gzip;q=1");
  CHECK(html.ends_with("\r\n\r\ncompressed"));
  CHECK(html.find("\r\nContent-Encoding: gzip\r\n") != std::string::npos);
  CHECK(answer("Accept: text/html").ends_with("\r\n\r\npage"));
  CHECK(answer("Accept: */*\r\nAccept-Encoding: gzip").ends_with("\r\n\r\npage"));
}

TEST_CASE("stats_http: /metrics has the format that is asked for") {
  CHECK(http_response("GET /metrics HTTP/1.1", pages()).ends_with("\r\n\r\ntext"));
  const std::string open =
      http_response("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain", pages());
  CHECK(open.ends_with("\r\n\r\nopen"));
  CHECK(open.find("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n") != std::string::npos);
}

TEST_CASE("stats_http: a WebSocket is accepted at /stream, from pages of the same origin and from programs") {
  const std::string upgrade = "GET /stream HTTP/1.1\r\nHost: localhost:1\r\nUpgrade: websocket\r\n";
  CHECK(asks_for_websocket(upgrade));
  CHECK_FALSE(asks_for_websocket("GET /stream HTTP/1.1\r\nHost: localhost:1"));
  CHECK(refuse_websocket(upgrade, {}).empty());
  CHECK(refuse_websocket(upgrade + "Origin: http://LOCALHOST:1", {}).empty());
  const auto status = [](const std::string& head) { return refuse_websocket(head, {}).substr(9, 3); };
  CHECK(status(upgrade + "Origin: http://localhost:2") == "403");
  CHECK(status(upgrade + "Origin: http://10.0.0.1") == "403");
  CHECK(status(upgrade + "Origin: null") == "403");
  CHECK(status("GET /stats HTTP/1.1\r\nHost: localhost:1\r\nUpgrade: websocket") == "404");
  CHECK(status("GET /stream HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket") == "421");
  CHECK(status("GET /stream HTTP/1.1\r\nOrigin: http://localhost:1\r\nUpgrade: websocket") == "403");
}

TEST_CASE("stats_http: every other request gets the right status") {
  const std::pair<std::string, std::string> cases[] = {{"POST / HTTP/1.1", "405"},
                                                       {"OPTIONS * HTTP/1.1", "405"},
                                                       {"GET /x HTTP/1.1", "404"},
                                                       {"GET //etc/passwd HTTP/1.1", "404"},
                                                       {"GET / HTTP/2.0", "505"},
                                                       {"GET /a b HTTP/1.1", "400"},
                                                       {"", "400"}};
  for (const auto& [head, status] : cases) CHECK(http_response(head, pages()).starts_with("HTTP/1.1 " + status));
}

TEST_CASE("stats_http: only hosts that no other party's DNS can claim are answered") {
  const auto status = [](const std::string& headers, const std::vector<std::string>& own_hosts = {}) {
    HttpPages with_hosts = pages();
    with_hosts.own_hosts = own_hosts;
    return http_response("GET /stats HTTP/1.1\r\n" + headers, with_hosts).substr(9, 3);
  };
  for (const char* host :
       {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:4711", "10.1.2.3:1", "[::1]:4711", "[fe80::1]"}) {
    CAPTURE(host);
    CHECK(status("Host: " + std::string(host)) == "200");
    CHECK(status("HOST:" + std::string(host) + "\r\nOrigin: http://" + host) == "200");
  }
  for (const char* host : {"attacker.example", "localhost.attacker.example", "127.0.0.1.attacker.example", "127.1", "",
                           "[::1", "[::1]x", "::1", "localhost:80x", "localhost:80:80", "localhost:65536",
                           "127.0.0.1:99999999", "[::1]:99999999", "localhost:-1", "a\xff"}) {
    CAPTURE(host);
    CHECK(status("Host: " + std::string(host)) == "421");
    CHECK(status("Host: localhost\r\norigin: http://" + std::string(host)) == "403");
  }
  CHECK(status("Host: gpu7.lab:4711", {"gpu7.lab"}) == "200");
  CHECK(status("Host: GPU7:4711\r\nOrigin: http://gpu7.Lab:4711", {"gpu7", "gpu7.lab"}) == "200");
  CHECK(status("Host: gpu7.attacker.example", {"gpu7", "gpu7.lab"}) == "421");
  CHECK(status("Host: gpu7.lab:4711", {"gpu8.lab"}) == "421");
  CHECK(status("Origin: null") == "403");
  CHECK(status("Host: localhost\r\nHost: attacker.example") == "400");
  for (const char* line :
       {"Host : localhost", "Host : a.example", "Host\t: a.example", " Host: a.example", ": a", "Host"})
    CHECK(status("Host: localhost\r\n" + std::string(line)) == "400");
  CHECK(status("Host: localhost\r\nAccept: */*\r\nX-Empty:\r\n\r\nno header") == "200");
  CHECK(status("") == "200");
  CHECK(http_response("GET /stats HTTP/1.1\r\nHost: a.example", pages()).find("{}") == std::string::npos);
}

TEST_CASE("stats_http: a line counts as HTTP only if it has the form of a request line") {
  CHECK(is_http_request_line("GET / HTTP/1.1\r"));
  CHECK(is_http_request_line("BREW /pot HTTP/9"));
  for (const char* line :
       {"GET", "GET /", "GET  HTTP/1.1", "get / HTTP/1.1", "{\"a\": HTTP/1.1", "GET /\x01 HTTP/1.1", ""})
    CHECK_FALSE(is_http_request_line(line));
}
